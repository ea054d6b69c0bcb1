"""From ranked candidates to the hits of a reply, as many as its size allows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

from pydantic_core import to_json

from retrieval.search.collapse import Group
from retrieval.search.found import Found
from retrieval.search.fusion import RANK_CONSTANT, Ranked
from retrieval.search.snippet import snippet_and_words
from retrieval.search.visible import seen
from retrieval.types import Hit, Ran, ScoreType

MAX_REPLY_CHARS: Final = 60_000
"""Characters of hits in one reply: more would not fit the model that asked."""

_CONTEXT_FIELD: Final = len(',"context":')
# A page of hits is made JSON in half the time that its hits take one by one.
_WEIGHED_AT_ONCE: Final = 20
_MAX_METADATA_CHARS: Final = 300
_MAX_METADATA: Final = 64
_MAX_LABEL_CHARS: Final = 600
_MAX_MATCHED_WORDS: Final = 20

_SCORE_TYPES: Final[Mapping[Ran, ScoreType]] = {
    "text": "bm25",
    "vector": "cosine",
    "hybrid": "rrf",
}

T = TypeVar("T")


def hits_of(
    best: Sequence[Ranked],
    found: Found,
    groups: Sequence[Group] | None,
    contexts: Mapping[str, str],
    *,
    whole: bool = False,
) -> tuple[list[Hit], int]:
    """Hits for `best` as far as they fit one reply, all of them if `whole`, and the number of those that did not.

    `contexts` are what stands around a hit, by its id; those that no longer fit are left out. `groups`, where there
    are any, begin with those of `best`, in its order.
    """
    hits: list[Hit] = []
    spent = 0
    for start in range(0, len(best), _WEIGHED_AT_ONCE):
        places = range(start, min(start + _WEIGHED_AT_ONCE, len(best)))
        more = [_hit(best[place], found, groups[place] if groups else None) for place in places]
        chars = _chars(more)
        while spent + chars > MAX_REPLY_CHARS and more and not whole:
            chars -= _chars([more.pop()])
        spent += chars
        hits += more
        if len(more) < len(places):
            return hits, len(best) - len(hits)
    # Better a hit without what stands around it than no hit: contexts get what room is left, the best first.
    for place, hit in enumerate(hits):
        if hit.id not in contexts:
            continue
        # A copy is not validated, so that this is not done by its type.
        context = seen(contexts[hit.id])
        spent += len(json.dumps(context, ensure_ascii=False)) + _CONTEXT_FIELD
        if spent > MAX_REPLY_CHARS and not whole:
            break
        hits[place] = hit.model_copy(update={"context": context})
    return hits, 0


def by_rank_alone(hits: Sequence[Hit]) -> list[Hit]:
    """`hits` without scores of words: how rare a word is was counted over rows that the caller may not know of."""
    return [
        hit.model_copy(
            update={"text_score": None}
            if hit.score_type == "cosine"
            # Of both arms too: where one found nothing, the score is the other's own.
            else {"text_score": None, "score": round(1 / (RANK_CONSTANT + place), 4), "score_type": "rrf"}
        )
        for place, hit in enumerate(hits, start=1)
    ]


def _chars(hits: list[Hit]) -> int:
    """Characters of the JSON of `hits`, one by one."""
    brackets_and_commas = len(hits) + 1
    return len(to_json(hits, exclude_none=True).decode()) - brackets_and_commas


def _hit(one: Ranked, found: Found, group: Group | None) -> Hit:
    row = one.row
    labels = "\n".join(part for part in (row.title, row.heading) if part)
    snippet, words = snippet_and_words(row.text, labels, found.read)
    return Hit(
        id=row.id,
        title=_cut(row.title, _MAX_LABEL_CHARS),
        heading=_cut(row.heading, _MAX_LABEL_CHARS),
        path=row.path,
        url=row.url,
        snippet=snippet,
        score=round(one.score, 4),
        score_type=_SCORE_TYPES[found.ran],
        why=one.why,
        matched_words=words[:_MAX_MATCHED_WORDS],
        text_rank=one.text_rank,
        text_score=_rounded(one.text_score),
        vector_rank=one.vector_rank,
        vector_score=_rounded(one.vector_score),
        stub=one.stub or None,
        boost=one.boost,
        outdated=found.outdated.get(row.id),
        stands_for=found.stands_for.get(row.id),
        matching_chunk_count=group.matching_chunk_count if group else None,
        matched_headings=list(group.matched_headings) if group else None,
        metadata={name: _cut(row.metadata[name], _MAX_METADATA_CHARS) for name in list(row.metadata)[:_MAX_METADATA]},
    )


def _rounded(score: float | None) -> float | None:
    return None if score is None else round(score, 4)


def _cut(value: T, chars: int) -> T:
    """`value`, if it is text, in at most `chars` characters."""
    if isinstance(value, str) and len(value) > chars:
        return cast("T", value[: chars - 1] + "…")
    return value
