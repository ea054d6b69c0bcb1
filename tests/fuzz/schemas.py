"""Values that a JSON Schema of a tool's arguments takes, and values that it does not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from hypothesis import strategies as st

Rules = Mapping[str, Any]

ODD_TEXT: Final = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            *(
                "",
                " ",
                "key",
                "keys.md",
                "keys.md#0",
                "documents",
                "../../etc/passwd",
                "row:0",
                "-1",
                "1e9",
                "NaN",
                "1_0",
            ),
            *("' OR 1=1 --", "`id`", "%00", "\x00", "\u202e", "a" * 4_097, "[", "{", '{"a":', "[[[[", "\U000e0041"),
        ]
    ),
)
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ODD_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT, inner, max_size=4),
    max_leaves=12,
)
_FIELDS: Final = st.sampled_from(["status", "owner", "priority", "date", "path", "title", "chunk", "nothing", "text"])


def valid(rules: Rules) -> st.SearchStrategy[Any]:
    """Values that `rules` take, those at their limits among them."""
    if "enum" in rules:
        return st.sampled_from(rules["enum"])
    match rules.get("type"):
        case "integer":
            return st.integers(rules["minimum"], rules["maximum"])
        case "number":
            return st.floats(rules["minimum"], rules["maximum"])
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(valid(rules.get("items", {})), max_size=min(rules.get("maxItems", 4), 4))
        case "object" if "properties" in rules:
            return valid_object(rules)
        case "object":
            return st.dictionaries(_FIELDS, st.one_of(JSON, valid_object(rules["additionalProperties"])), max_size=3)
        case "string":
            most = min(rules.get("maxLength", 40), 40)
            plain = st.text(st.characters(exclude_categories=["Cs"]), min_size=rules.get("minLength", 0), max_size=most)
            return st.one_of(plain, st.sampled_from(rules.get("examples", ["key"])))
        case _:
            return JSON


def valid_object(rules: Rules) -> st.SearchStrategy[dict[str, Any]]:
    parts = {name: valid(inner) for name, inner in rules["properties"].items()}
    required = {name: parts.pop(name) for name in rules.get("required", ())}
    return st.fixed_dictionaries(required, optional=parts)


def any_object(rules: Rules) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with names of `rules` and others, whose values are right, wrong or odd."""
    names = {name: st.one_of(valid(inner), JSON) for name, inner in rules["properties"].items()}
    more = st.dictionaries(ODD_TEXT, JSON, max_size=2)
    return st.tuples(more, st.fixed_dictionaries({}, optional=names)).map(lambda parts: {**parts[0], **parts[1]})


Place = tuple[str | int, ...]


def places(value: object, path: Place = ()) -> Iterator[Place]:
    """Where in `value`, which is JSON, something else could stand."""
    yield path
    for key, inner in _parts(value):
        yield from places(inner, (*path, key))


def put(value: object, path: Place, other: object) -> object:
    """`value` with `other` at one of its `places`."""
    if not path:
        return other
    parts = [(key, put(inner, path[1:], other) if key == path[0] else inner) for key, inner in _parts(value)]
    return dict(parts) if isinstance(value, dict) else [inner for _, inner in parts]


def _parts(value: object) -> list[tuple[str | int, object]]:
    if isinstance(value, dict):
        return list(cast("dict[str | int, object]", value).items())
    return list(enumerate(cast("list[object]", value))) if isinstance(value, list) else []
