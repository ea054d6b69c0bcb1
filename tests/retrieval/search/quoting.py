"""Conditions as LanceDB is asked them."""

from __future__ import annotations

from lancedb.expr import lit

from retrieval.search.filters import (
    Where,
    to_sql,
)


def quoted(where: Where) -> str:
    return to_sql(where, lambda column: f"`{column}`", lambda value: lit(value).to_sql())
