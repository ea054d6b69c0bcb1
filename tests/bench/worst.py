"""Questions that a search must not stumble over: the commonest words, the longest questions, phrases, odd scripts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from retrieval.search.plan import MAX_QUERY_CHARS
from tests.bench.drawn import COMMON, words

WORDS_OF_A_LONG_QUESTION: Final = 64
_CHINESE: Final = "数据库连接失败时如何重新启动服务并检查日志文件中的错误信息"


def worst_questions(count: int) -> Mapping[str, tuple[str, ...]]:
    """`count` questions of each kind, by its name."""
    dice = random.Random("bedivere worst questions")
    frequent, telling = words()[: 2 * len(COMMON)], words()[150:8_000]

    def some(of: tuple[str, ...], least: int, most: int) -> list[str]:
        return [dice.choice(of) for _ in range(dice.randint(least, most))]

    def misspelt(word: str) -> str:
        at = dice.randrange(1, len(word) - 1)
        return word[:at] + dice.choice("aeioutnrs") + word[at + 1 :]

    def cut(text: str) -> str:
        return text[:MAX_QUERY_CHARS]

    return {
        "the commonest words only": tuple(" ".join(some(COMMON, 3, 8)) for _ in range(count)),
        # None of these is left out as too common, and each stands in one chunk of five or more.
        "the most frequent other words": tuple(
            " ".join(some(frequent[len(COMMON) : len(COMMON) + 12], 4, 8)) for _ in range(count)
        ),
        f"questions of {WORDS_OF_A_LONG_QUESTION} words": tuple(
            " ".join(dice.choice(frequent if one % 3 else telling) for one in range(WORDS_OF_A_LONG_QUESTION))
            for _ in range(count)
        ),
        "long phrases": tuple(
            f'"{" ".join(some(frequent, 12, 16))}" "{" ".join(some(frequent, 2, 6))}"' for _ in range(count)
        ),
        "huge identifiers": tuple(
            f"{'_'.join(some(telling, 10, 14))}.{'.'.join(some(telling, 8, 12))}" for _ in range(count)
        ),
        f"{MAX_QUERY_CHARS:,} characters": tuple(cut(" ".join(some(words(), 900, 900))) for _ in range(count)),
        "unspaced Chinese": tuple(
            "".join(dice.sample(_CHINESE, len(_CHINESE))) * dice.randint(1, 8) for _ in range(count)
        ),
        "many typing errors": tuple(" ".join(map(misspelt, some(telling, 12, 20))) for _ in range(count)),
    }
