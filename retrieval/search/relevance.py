"""Whether the best rows answer a question at all, or nothing in the table does.

What tells is what the question names and the table does not: a word that no chunk holds in any form, a name that no row
holds and whose words are unknown too. A missing word tells little of a table that knows few words. Where vectors were
searched, how near the nearest row came is weighed against that; of a question that names nothing it alone tells. What
is answered all the same says which names are missing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log
from string import ascii_lowercase
from typing import Final

from retrieval.search import text as lexicon
from retrieval.search.english import is_english
from retrieval.search.everyday import EVERYDAY
from retrieval.search.families import relatives
from retrieval.search.fusion import Ranked
from retrieval.search.seen import Seen
from retrieval.search.vocabulary import Correction, Vocabulary, tokens
from retrieval.types import Ran

# Each with its figures in docs/retrieval.md.
THRESHOLDS: Final[Mapping[Ran, float]] = {"text": 0.77, "vector": 0.77, "hybrid": 0.77}
IDENTIFIER_WEIGHT: Final = 2.0
"""What an identifier counts, in words that no chunk holds, that the table holds, or lacks and is written in capitals.

Others that it lacks count as one word: they may be the reader's own.
"""

_WORDS_KNOWN: Final = 0.9
_WORDS_OF_CONSTANT_KNOWN: Final = 0.5
"""Of the weight of an identifier that nothing holds, what its words make up for where all of them are known."""

_ENOUGH: Final = 0.75
"""What must be known beside the missing identifiers for an answer to be shown with a note, in words as above."""

WITHOUT_A_NAME: Final = 0.9
"""The most that an answer reaches which lacks a name of the question: its note says that it does not answer all."""

WORDS_OF_A_LANGUAGE: Final = 5_000
"""Words that a table knows, from which on a word that it lacks counts in full; in a smaller table in proportion, since
there its readers' other words for what it does say are missing as well."""

_LEAST_KNOWN: Final = 0.2
"""The least of these proportions: even a page of a few words should not answer what has one of them in common."""

_ELSEWHERE: Final = 0.1
"""Of the weight of a missing word, what one has that the table holds in rows that were not searched: a part of a table
knows fewer words than the whole, and one document very few."""

NEARNESS_WEIGHT: Final = 0.5
FAR: Final = 0.25
NEAR: Final = 0.5
"""On the scale from the table's noise, 0, to its own headings, 1: below the one nearness speaks against an answer and
above the other for it. Between them lie paraphrases and questions of neighbouring subjects alike."""

UNRELATED: Final = 0.1
"""Below it a passage answers only where it holds what the question says: its words alone are in any prose."""

AS_NEAR_AS_OWN: Final = 0.6
"""From here on a passage answers whatever words it lacks, another language's too, as long as no name is missing."""

LOOKED_AT: Final = 50
"""The best rows that are read for the identifiers and quotations of the question."""

SURELY_SEEN: Final = 50
"""Where a search within a part of the table found more rows than it gives, a word that so few chunks of the whole table
hold would be in one of them, were it in that part: rare words rank highest."""

NOISE: Final = "noise"
SIGNAL: Final = "signal"
"""Keys of a calibration: cosine similarity of the nearest row, for questions of other worlds and for the table's own
headings, the median of each."""

_MAX_NAMED: Final = 4
_SHORTEST_MISSED: Final = 4
_SHORTEST_NOUN: Final = 3
# What a reader brings along: versions, numbers, addresses, paths and hashes of their own. No document need hold them.
_READERS_OWN: Final = re.compile(r"v?\d[\d.,:x-]*|.*(?:://|@).*|[0-9a-f]{7,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the question has an answer here; `score`, in hundredths, and `threshold` are from 0 to 1."""

    answers: bool
    score: float
    threshold: float
    reasons: tuple[str, ...]
    """What the score suffered from, as clauses."""

    note: str | None = None
    """Where the hits answer only the rest of the question: a sentence that says which names nothing holds."""


@dataclass(slots=True)
class _Tally:
    """What a question names, by whether the table holds it, weighed on the scale of inverse document frequencies."""

    known: float = 0.0
    missing: dict[str, float] = field(default_factory=dict[str, float])
    known_of_names: float = 0.0
    missing_names: dict[str, float] = field(default_factory=dict[str, float])
    missing_in_part: float = 0.0
    """Of what is known in part and has no name of its own."""
    elsewhere: bool = False
    """Whether the table holds something that is missing here, in rows that were not searched."""

    def weight(self) -> float:
        """Of all that is named."""
        return self.known + self.known_of_names + self._lacking(self.missing_names)

    def share(self) -> float:
        """Of the weight of all that is named, what the table holds; 0 where nothing is named."""
        known = self.known + self.known_of_names
        return known / self.weight() if known else 0.0

    def share_of_rest(self) -> float:
        """The same without the names that may be the reader's own."""
        others = {name: weight for name, weight in self.missing_names.items() if not _may_be_readers(name)}
        return self.known / (self.known + self._lacking(others)) if self.known else 0.0

    def _lacking(self, names: Mapping[str, float]) -> float:
        return self.missing_in_part + sum(self.missing.values()) + sum(names.values())


def judge(
    question: str,
    ranked: Sequence[Ranked],
    vocabulary: Vocabulary | None,
    calibration: Mapping[str, object] | None,
    ran: Ran,
    min_score: float | None,
    corrections: Iterable[Correction] = (),
    within: Seen | None = None,
    *,
    called: Collection[str] = (),
) -> Verdict:
    """The verdict on `ranked`, the best rows of a search, best first, before it is cut to the caller's limit.

    `question` is as corrected, by `corrections`; `min_score` stands in for the threshold. A table without vocabulary is
    only asked for the identifiers, one without calibration is not asked how near its rows came. Where only a part of
    the table was searched, `within` is what was found there: what the rest of the table holds does not count. `called`
    are names and words, in lower case, that documents are called by: they are held, whatever the rows say.
    """
    threshold = THRESHOLDS[ran] if min_score is None else min_score
    if not ranked:
        return Verdict(False, 0.0, threshold, ())
    tally = _named(question, ranked, vocabulary, ran, corrections, within, called)
    nameless = not tally.weight()
    unknown = [*tally.missing_names, *tally.missing]
    holder = "no document that was searched" if tally.elsewhere else "no document"
    reasons = [f"{holder} holds {_listed(unknown)}"] if unknown else []
    if nameless:
        reasons.append("the query names nothing in particular")
    score = tally.share()
    enough = _ENOUGH * _weight(0, vocabulary.chunks if vocabulary else len(ranked))
    if any(map(_may_be_readers, tally.missing_names)) and tally.known >= enough:
        score = max(score, tally.share_of_rest())
    near = None if ran == "text" else nearness(ranked, calibration)
    if near is not None:
        # What lies near a name that nothing holds is about something else.
        for_it = 0.0 if tally.missing_names else max(near - NEAR, 0.0)
        score += NEARNESS_WEIGHT * (for_it - max(FAR - near, 0.0))
        if near >= (NEAR if nameless else AS_NEAR_AS_OWN) and not tally.missing_names:
            # What is said in other words is what vectors are for.
            score = max(score, THRESHOLDS[ran])
        if near < UNRELATED and vocabulary is not None:
            score *= _held_by_one(question, ranked[:LOOKED_AT], vocabulary)
        if near < FAR:
            reasons.append("no passage is near in meaning")
    names = [*tally.missing_names, *filter(_is_foreign, tally.missing)]
    if names:
        score = min(score, WITHOUT_A_NAME)
    # As it is shown, so that no refusal reads "0.66 of 0.66"; what is a hair below a hundredth is that hundredth.
    score = floor(min(max(score, 0.0), 1.0) * 100 + 1e-6) / 100
    answers = score >= threshold
    note = None
    if answers and names:
        note = f"{holder.capitalize()} holds {_listed(names)}: these are the nearest on the rest of the question."
    return Verdict(answers, score, threshold, tuple(reasons), note)


def nearest(ranked: Sequence[Ranked]) -> Ranked | None:
    """The row that a verdict speaks of: the nearest in meaning, the first where words alone judge."""
    return max(ranked, key=lambda one: -2.0 if one.vector_score is None else one.vector_score, default=None)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, list(names)[:_MAX_NAMED]))


def _named(
    question: str,
    ranked: Sequence[Ranked],
    vocabulary: Vocabulary | None,
    ran: Ran,
    corrections: Iterable[Correction],
    within: Seen | None,
    called: Collection[str],
) -> _Tally:
    """What the question names, weighed: what is rare counts most, and what is nowhere even more."""
    chunks = vocabulary.chunks if vocabulary else len(ranked)
    heaviest = _weight(0, chunks)
    tally = _Tally()
    spans = lexicon.identifier_spans(question)
    names = dict.fromkeys(question[start:end] for start, end in spans if _must_be_held(question, start, end))
    seen = Seen(one.row for one in ranked[:LOOKED_AT])
    for name in names:
        in_table = vocabulary is not None and vocabulary.holds_identifier(name)
        here = name.casefold() in called or seen.name(name) or (within is not None and within.name(name))
        if here or (in_table and (within is None or not within.whole)):
            tally.known += IDENTIFIER_WEIGHT * heaviest
        elif vocabulary is not None or ran != "vector":
            # By meaning alone, rows come first that need not hold what is named, though others may.
            share = _share_of_words(name, vocabulary) if vocabulary and not in_table else 0.0
            weight = heaviest * (IDENTIFIER_WEIGHT if name.isupper() else 1)
            tally.known_of_names += share * weight
            tally.missing_names[name] = (1 - share) * weight
            tally.elsewhere = tally.elsewhere or in_table
    if vocabulary is None:
        if not tally.weight():
            tally.known = heaviest
        return tally
    in_english = _in_english(question)
    for phrase in _quotations(question) if ran != "vector" else ():
        if phrase not in names and not seen.phrase(phrase):
            share = _share_of_words(phrase, vocabulary)
            tally.known_of_names += share * heaviest
            tally.missing_names[phrase] = (1 - share) * heaviest
    _weigh_runs(tally, question, seen, heaviest, ran)
    # A hyphenated word counts by its words: the two of "read-only" are in the index.
    taken = [span for span in spans if not lexicon.is_hyphenated(question[slice(*span)])]
    words: dict[str, str] = {}
    for match in tokens(question):
        word = match.group()
        if not any(start <= match.start() < end for start, end in taken) and not lexicon.is_common(word):
            words.setdefault(lexicon.fold(word).lower(), word)
    doubtful = {lexicon.fold(one.read).lower(): one for one in corrections if one.trust < 1}
    said = heaviest * min(1.0, max(_LEAST_KNOWN, vocabulary.words / WORDS_OF_A_LANGUAGE))
    for plain, word in words.items():
        frequency = vocabulary.frequency(word) or (1 if plain in called else 0)
        correction = doubtful.get(plain)
        if not frequency and word.isalpha() and not word.isupper():
            frequency = next((found for one in relatives(plain) if (found := vocabulary.frequency(one))), 0)
        in_name = 0 if frequency else vocabulary.names_with(word)
        frequency = frequency or in_name
        elsewhere = (
            frequency > 0
            and plain not in called
            and within is not None
            and not (_is_within(within, plain, frequency) or (in_name and within.name(plain)))
        )
        if elsewhere:
            frequency, tally.elsewhere = 0, True
        if frequency and correction is not None:
            tally.known += correction.trust * _weight(frequency, chunks)
            tally.missing[correction.written] = (1 - correction.trust) * said
        elif frequency:
            tally.known += _weight(frequency, chunks)
        elif (
            plain not in EVERYDAY
            and (_counts(word) or (in_english and _is_short_noun(word.lower())))
            and not vocabulary.left_out
        ):
            telling = heaviest if in_english and _is_name(word) else said
            tally.missing[word] = telling * (_ELSEWHERE if elsewhere else 1)
    if not tally.weight() and (vocabulary.left_out or _stands(question, seen, vocabulary, spans)):
        tally.known = heaviest
    return tally


def _weigh_runs(tally: _Tally, question: str, seen: Seen, heaviest: float, ran: Ran) -> None:
    """Adds the runs of unspaced scripts, of which a vocabulary knows nothing: what the rows hold of them."""
    for run in lexicon.unspaced_runs(question):
        weight = heaviest * max(1.0, len(run) / 2)
        # By meaning alone, rows come first that need not hold what is named; that they hold no such letter tells.
        share = 1.0 if ran == "vector" and seen.any_unspaced() else seen.share_of_run(run)
        tally.known += share * weight
        if share:
            tally.missing_in_part += (1 - share) * weight
        else:
            tally.missing[run] = weight


def _stands(question: str, seen: Seen, vocabulary: Vocabulary, spans: Iterable[tuple[int, int]]) -> bool:
    """Whether a question of nothing but common words, numbers and names of the reader's own stands in a row as it is.

    Or one of these names does, or is made of words that are known.
    """
    names = [question[start:end] for start, end in spans]
    return seen.phrase(question, exactly=True) or any(
        seen.name(name) or vocabulary.holds_identifier(name) or _share_of_words(name, vocabulary) >= _WORDS_KNOWN / 2
        for name in names
    )


def _is_within(within: Seen, plain: str, frequency: int) -> bool:
    """Whether a word that the table holds, in `frequency` chunks, is in the part of it that was searched."""
    if not within.whole and frequency > SURELY_SEEN:
        return True
    return within.word(plain) or any(within.word(one, exactly=True) for one in relatives(plain))


def _held_by_one(question: str, ranked: Sequence[Ranked], vocabulary: Vocabulary) -> float:
    """Of the weight of the words of `question` that the table holds, what one row does; 1 where that is one word."""
    asked = {lexicon.fold(match.group()).lower() for match in tokens(question)}
    known = {word: vocabulary.frequency(word) for word in asked if not lexicon.is_common(word)}
    weights = {word: _weight(frequency, vocabulary.chunks) for word, frequency in known.items() if frequency}
    if len(weights) < 2:
        return 1.0
    rows = (Seen([one.row]) for one in ranked)
    held = (sum(weight for word, weight in weights.items() if row.word(word)) for row in rows)
    return max(held) / sum(weights.values())


def _quotations(question: str) -> list[str]:
    """What `question` quotes, of two words or more."""
    return [one for one in lexicon.quoted(question) if len(lexicon.words(one)) > 1]


def _share_of_words(name: str, vocabulary: Vocabulary) -> float:
    """Of an identifier that nothing holds, what is known of the words it is composed of, weighed by their rarity."""
    if name.isupper() and any(map(str.isdigit, name)):
        # A code is known by its number: that others begin as it does says nothing.
        return 0.0
    heaviest = _weight(0, vocabulary.chunks)
    known = lacking = 0.0
    for word in lexicon.identifier_words(name):
        frequency = vocabulary.frequency(word)
        if frequency:
            known += _weight(frequency, vocabulary.chunks)
        elif _counts(word) and word not in EVERYDAY and not word.isdigit():
            lacking += heaviest
    most = _WORDS_OF_CONSTANT_KNOWN if name.isupper() else _WORDS_KNOWN
    return most * known / (known + lacking) if known else 0.0


def _must_be_held(question: str, start: int, end: int) -> bool:
    name = question[start:end]
    is_path = question[:start].endswith(("/", "~"))
    return not is_path and not lexicon.is_hyphenated(name) and _READERS_OWN.fullmatch(name) is None


def _may_be_readers(name: str) -> bool:
    """Whether a reader may have made up `name`: not codes, products and options (`AR-4031`, `MongoDB`, `--json`)."""
    return not name.isupper() and not name.isalpha() and not name.startswith("-")


def _counts(word: str) -> bool:
    """Whether it says something that no document holds `word`: of a few small letters, it may be a slip."""
    return (len(word) >= _SHORTEST_MISSED or word.isupper()) and not _READERS_OWN.fullmatch(word)


def _is_short_noun(word: str) -> bool:
    """Whether a word of three letters in an English question says what it is about (`car`).

    Not one that is a slip of a common word, two letters swapped or one left out (`teh`, `wth`).
    """
    if len(word) != _SHORTEST_NOUN or not (word.isascii() and word.isalpha()):
        return False
    first, second, third = word
    slips = [second + first + third, first + third + second]
    slips += [word[:at] + letter + word[at:] for at in range(1, 4) for letter in ascii_lowercase]
    return not any(map(lexicon.is_common, slips))


def _is_name(word: str) -> bool:
    """Whether `word`, which no document holds, is written as a name and is no English word."""
    return not word.islower() and _is_foreign(word)


def _is_foreign(word: str) -> bool:
    """Whether a document can hardly say `word` in other words: a name, an abbreviation, a word of another language."""
    # Of shorter words the list of English says nothing.
    return word.isupper() or (len(word) >= _SHORTEST_MISSED and not is_english(lexicon.fold(word).lower()))


def _in_english(question: str) -> bool:
    """Whether most words are: elsewhere every noun may begin with a capital."""
    words = [match.group() for match in tokens(question) if match.group().isalpha()]
    english = [word for word in words if lexicon.is_common(word) or is_english(lexicon.fold(word).lower())]
    return 2 * len(english) >= len(words)


def _weight(frequency: int, chunks: int) -> float:
    """What a word that `frequency` chunks hold counts: half of it by rarity, as the commonest are what it is about."""
    return (_rarity(frequency, chunks) + _rarity(0, chunks)) / 2


def _rarity(frequency: int, chunks: int) -> float:
    return log(1 + (chunks - frequency + 0.5) / (frequency + 0.5))


def nearness(ranked: Sequence[Ranked], calibration: Mapping[str, object] | None) -> float | None:
    """Where the nearest row stands between the table's noise, 0 and what is below it, and its own headings, 1.

    None where neither is known.
    """
    noise, signal = (calibration or {}).get(NOISE), (calibration or {}).get(SIGNAL)
    cosines = [one.vector_score for one in ranked if one.vector_score is not None]
    if not cosines or not isinstance(noise, float) or not isinstance(signal, float) or signal <= noise:
        return None
    return max((max(cosines) - noise) / (signal - noise), 0.0)
