"""Query texts into a feature store, beside the frames they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muvr_train.features.writer import StoreWriter


class TextEncoder(Protocol):
    """Anything that turns texts into vectors."""

    def encode_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give float32 [n, D_text]."""


def add_texts(
    out: Path,
    manifest: Mapping[str, Any],
    texts: Mapping[str, str],
    encoder: TextEncoder,
    dtype: str = "float16",
    batch_size: int = 256,
) -> int:
    """Encode the texts that the store lacks and add them as [1, 1, D_text] to its stream "text".

    Args:
        out: the store.
        manifest: the store's own manifest (it must name the text encoder).
        texts: query id to text.
        encoder: turns texts into vectors.
        dtype: of the store.
        batch_size: texts encoded at a time.

    Returns:
        How many were added.
    """
    with StoreWriter(out, manifest, dtype) as writer:
        done = writer.done("text")
        todo = [query for query in texts if query not in done]
        for start in range(0, len(todo), batch_size):
            block = todo[start : start + batch_size]
            for query, vector in zip(block, encoder.encode_texts([texts[query] for query in block]), strict=True):
                writer.add(query, vector[None, None], stream="text")
    return len(todo)
