"""Texts to vectors without any model: a bag of words whose word vectors come from a hash."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.errors import ConfigError, DataError

_WORD = re.compile(r"\w+")


class HashTextEncoder:
    """The L2-normalised sum of one fixed random unit vector per word, lower-cased, order ignored, repeats counted.

    The vector of a word depends on nothing but the word, `dim` and `seed`: equal on every machine and in every run.

    Args:
        dim: size of the vectors, at least 64.
        seed: another seed, other vectors.
    """

    def __init__(self, dim: int = 256, seed: int = 0) -> None:
        if dim < 64:
            raise ConfigError(f"the hash text encoder needs dim of at least 64, got {dim}")
        self.dim = dim
        self.seed = seed
        self.name = f"hash_bow_{dim}"

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts to unit vectors [n, dim].

        Raises:
            DataError: no texts, or a text without any word.
        """
        check_texts(texts)
        rows = []
        for text in texts:
            words = _WORD.findall(unicodedata.normalize("NFC", text).casefold())
            if not words:
                raise DataError(f"the text {text!r} holds no word")
            total = np.sum([_word_vector(word, self.dim, self.seed) for word in words], axis=0)
            rows.append(total / np.linalg.norm(total))
        return np.asarray(rows, dtype=np.float32)

    def manifest(self) -> dict[str, Any]:
        """Manifest entries of a store that holds these texts: they do not live in the space of any frame feature."""
        return {"text_encoder": self.name, "text_seed": self.seed, "text_aligned": False}


def check_texts(texts: Sequence[str]) -> None:
    """Raise a DataError where there are no texts, one is empty, or a bare string was given for a list."""
    if isinstance(texts, str) or not texts:
        raise DataError(f"a list of texts is needed, got {texts!r}")
    if empty := [row for row, text in enumerate(texts) if not text.strip()]:
        raise DataError(f"text {empty[0]} of {len(texts)} is empty; leave it out (an absent text has no vote)")


@lru_cache(maxsize=65536)
def _word_vector(word: str, dim: int, seed: int) -> NDArray[np.float64]:
    """A unit vector of +-1 / sqrt(dim), its signs the bits of BLAKE2b(seed, word)."""
    digest = b""
    while len(digest) * 8 < dim:
        digest += hashlib.blake2b(f"{seed}:{len(digest)}:{word}".encode()).digest()
    bits = np.unpackbits(np.frombuffer(digest, np.uint8))[:dim].astype(np.float64)
    vector: NDArray[np.float64] = (2 * bits - 1) / np.sqrt(dim)
    return vector
