"""Counts the words of a table while it is built, for `retrieval.search.vocabulary` to ask."""

from __future__ import annotations

from collections import Counter
from typing import Final

from retrieval.search import text as lexicon
from retrieval.search.vocabulary import MAX_IDENTIFIERS, MAX_STEMS, MAX_TOKEN, TOKEN, stem, to_bytes, tokens

_MAX_FORMS: Final = 8
"""Forms of a stem that are kept: the commonest are what a reader would write."""

_SHORTEST_IDENTIFIER: Final = 6


class VocabularyBuilder:
    """Takes the chunks of a table, in any order, and gives the same bytes for the same chunks."""

    def __init__(self) -> None:
        self._chunks = 0
        self._forms: Counter[str] = Counter()
        self._stems: Counter[str] = Counter()
        self._stem_of: dict[str, str] = {}
        self._identifiers: Counter[str] = Counter()
        self._written: dict[str, str] = {}

    def add(self, search_text: str, idents: str) -> None:
        """Takes one chunk, by its columns of these names."""
        self._chunks += 1
        lower = search_text.lower()
        words = _words(lower)
        for word in words:
            # Not by the difference of the sets, which would look at every word that is known, for each chunk.
            if word not in self._stem_of:
                self._stem_of[word] = stem(word)
        self._forms.update(words)
        self._stems.update({self._stem_of[word] for word in words})
        for name in set(idents.split()):
            if _SHORTEST_IDENTIFIER <= len(name) <= MAX_TOKEN:
                self._identifiers[name] += 1
                place = lower.find(name) if len(lower) == len(search_text) else -1
                written = name if place < 0 else search_text[place : place + len(name)]
                # The least of its spellings, so that the order of the chunks does not count.
                self._written[name] = min(written, self._written.get(name, written))

    def merge(self, other: VocabularyBuilder) -> None:
        """Takes the chunks that another one was given."""
        self._chunks += other._chunks
        self._forms.update(other._forms)
        self._stems.update(other._stems)
        self._stem_of.update(other._stem_of)
        self._identifiers.update(other._identifiers)
        for name, written in other._written.items():
            self._written[name] = min(written, self._written.get(name, written))

    def to_bytes(self) -> bytes:
        """The file that `Vocabulary.load` reads."""
        kept = sorted(self._stems, key=lambda name: (-self._stems[name], name))
        left_out = self._stems[kept[MAX_STEMS]] if len(kept) > MAX_STEMS else 0
        forms: dict[str, list[str]] = {}
        for form in sorted(self._forms, key=lambda form: (-self._forms[form], form)):
            if form.isalpha():
                written = forms.setdefault(self._stem_of[form], [])
                if len(written) < _MAX_FORMS:
                    written.append(f"{form} {self._forms[form]}")
        names = sorted(kept[:MAX_STEMS])
        named = sorted(self._identifiers, key=lambda name: (-self._identifiers[name], name))
        written = [self._written[name] for name in named]
        real = [name for name in written if lexicon.identifiers(name) == [name]][:MAX_IDENTIFIERS]
        stems = ["\t".join((name, str(self._stems[name]), *forms.get(name, ()))) for name in names]
        identifiers = [f"{name}\t{self._identifiers[name.lower()]}" for name in sorted(real)]
        return to_bytes(self._chunks, left_out, stems, identifiers)


def _words(text: str) -> set[str]:
    """The words of `text` that are counted, in lower case as it is; see `tokens`."""
    if not text.isascii():
        return {match.group() for match in tokens(text)}
    return {word for word in TOKEN.findall(text) if len(word) <= MAX_TOKEN}
