"""A real embedding model that is small enough for every run of the tests: WordLlama's 32,000 token vectors, averaged.

The wheel carries weights and tokenizer. They are read without the package's own code, which sets up logging when it is
imported and looks for its files on the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from safetensors.numpy import load_file  # pyright: ignore[reportUnknownVariableType]
from tokenizers import Tokenizer

NAME: Final = "wordllama-l2-supercat-256"
DIMENSIONS: Final = 256

_WEIGHTS: Final = "embedding.weight"


def embed(texts: Sequence[str]) -> list[list[float]]:
    """A vector of `DIMENSIONS` numbers and length 1 for each text; of length 0 for a text without tokens."""
    weights, tokenizer = _model()
    vectors: list[list[float]] = []
    for text in texts:
        tokens: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        mean = weights[tokens].mean(axis=0) if tokens else np.zeros(DIMENSIONS, np.float32)
        norm = float(np.linalg.norm(mean))
        vectors.append((mean / norm if norm else mean).tolist())
    return vectors


@cache
def _model() -> tuple[Any, Any]:
    spec = find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    folder = Path(spec.submodule_search_locations[0])
    weights = load_file(folder / "weights" / "l2_supercat_256.safetensors")[_WEIGHTS].astype(np.float32)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return weights, cast("Any", tokenizer)
