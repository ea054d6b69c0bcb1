"""From a question to a text query: which words are searched in which column, and what they weigh.

Nothing here runs a search: a plan is data, and `retrieval.table` turns it into LanceDB's query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from retrieval.search import text as lexicon

# Measured on two documentation corpora and two collections of abstracts; see docs/retrieval.md.
TITLE_BOOST: Final = 0.2
HEADING_BOOST: Final = 0.1
IDENTIFIER_BOOST: Final = 1.0
PART_BOOST: Final = 0.2

MAX_QUERY_CHARS: Final = 4_000
"""Longer is a document, not a question."""

MAX_POSTINGS: Final = 100_000
"""Places in the index that the words of one question may cost, each as many as there are chunks that hold it. Of a
longer question the commonest words are left out, which tell least and cost most, but for the `MIN_WORDS` rarest."""

MIN_WORDS: Final = 16
"""No question of fewer telling words is shortened, whatever it costs."""

MAX_WEIGHED: Final = 5_000
"""Places in the index up to which titles and headings are searched beside the text. A query of one part alone passes
over what cannot come first; of several, LanceDB looks at every place and adds up. In a table of a million chunks that
takes 17 ms of CPU where the text alone takes 3, and the title stands twice in the searched text already."""

_MAX_PHRASES: Final = 4
_MAX_PHRASE_WORDS: Final = 8


@dataclass(frozen=True, slots=True)
class Searchable:
    """The columns of a table that a text query may name; None where the table has no such column."""

    text: str
    title: str | None = None
    heading: str | None = None
    identifiers: str | None = None
    folded: bool = False
    """Whether the text column holds folded text, so that the question is folded for it."""
    phrases: bool = True
    """Whether the text column can be searched for phrases."""


@dataclass(frozen=True, slots=True)
class Match:
    """Any of `terms` in `column`; the score is BM25 times `boost`."""

    column: str
    terms: str
    boost: float = 1.0


@dataclass(frozen=True, slots=True)
class Phrase:
    """`terms` side by side in `column`."""

    column: str
    terms: str


@dataclass(frozen=True, slots=True)
class TextPlan:
    """Parts of which any may match; a row's score is the sum of its parts' scores."""

    parts: tuple[Match | Phrase, ...]
    cut: bool
    """True where the question had more words than are searched."""


def plan_text(
    question: str,
    columns: Searchable,
    frequency: Callable[[str], int] | None = None,
    names_with: Callable[[str], int] | None = None,
) -> TextPlan | None:
    """The plan for `question`, or None where it holds no word that could match.

    `frequency` is the number of chunks that hold a word; without it no question is shortened to `MAX_POSTINGS`, and
    titles and headings are searched whatever it costs.
    `names_with` is the number of those that hold an identifier with the word in it: what stands nowhere else is looked
    for there.
    """
    question = lexicon.nfc(question)
    terms, cut = lexicon.first_terms(question)
    if not lexicon.words(terms):
        return None
    # The commonest words have the longest posting lists and, all of a question's together, outweigh its subject.
    telling, places = lexicon.telling(terms), 0
    if frequency is not None:
        telling, places = _affordable(telling, frequency)
    # Folded text is ours, and holds the title.
    weighed = places <= MAX_WEIGHED or not columns.folded

    def searched(text: str, limit: int) -> str:
        # Cut again: one letter of Arabic unfolds to four words.
        return lexicon.first_terms(lexicon.fold(text) if columns.folded else text, limit)[0]

    parts: list[Match | Phrase] = [Match(columns.text, searched(telling, lexicon.MAX_TERMS))]
    if columns.identifiers:
        parts += _identifier_parts(columns.identifiers, lexicon.identifiers(terms))
        if frequency is not None and names_with is not None:
            words = dict.fromkeys(lexicon.fold(word).lower() for word in lexicon.words(telling))
            inner = [word for word in words if not frequency(word) and names_with(word)]
            parts += [Match(columns.identifiers, " ".join(inner), IDENTIFIER_BOOST)] if inner else []
    if columns.title and weighed:
        parts.append(Match(columns.title, telling, TITLE_BOOST))
    if columns.heading and weighed:
        parts.append(Match(columns.heading, telling, HEADING_BOOST))
    if columns.phrases:
        parts += [
            Phrase(columns.text, searched(phrase, _MAX_PHRASE_WORDS))
            for phrase in lexicon.phrases(terms)[:_MAX_PHRASES]
        ]
    return TextPlan(tuple(parts), cut)


def _affordable(telling: str, frequency: Callable[[str], int]) -> tuple[str, int]:
    """`telling` without the commonest of its words beyond `MAX_POSTINGS` and the `MIN_WORDS` rarest.

    With it the places in the index that the words left cost.
    """
    words = telling.split()
    # What is several words to the index is as rare as the rarest of them.
    chunks = {word: min(map(frequency, lexicon.words(word)), default=0) for word in dict.fromkeys(words)}
    if len(chunks) <= MIN_WORDS:
        return telling, sum(chunks.values())
    kept: set[str] = set()
    spent = 0
    for word in sorted(chunks, key=lambda word: chunks[word]):
        if spent + chunks[word] > MAX_POSTINGS and len(kept) >= MIN_WORDS:
            break
        spent += chunks[word]
        kept.add(word)
    return (telling if len(kept) == len(chunks) else " ".join(word for word in words if word in kept)), spent


def _identifier_parts(column: str, identifiers: list[str]) -> list[Match]:
    """Names as they are written above all; their words only so that another spelling of a name is found."""
    names = [name.lower() for name in identifiers]
    # The text is cut where names have dots, slashes and hyphens; underscores and capitals are what spellings differ in.
    words = [word for name in identifiers if name.isidentifier() for word in lexicon.identifier_parts(name)]
    weighed = ((names, IDENTIFIER_BOOST), (words, PART_BOOST))
    return [Match(column, " ".join(dict.fromkeys(terms)), boost) for terms, boost in weighed if terms]
