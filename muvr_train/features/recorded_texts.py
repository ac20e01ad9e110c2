"""The texts and tags that a store holds vectors of, kept beside them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from muvr_train.errors import DataError, shorten
from muvr_train.features.index import INDEX
from muvr_train.features.shards import read_json, write_json
from muvr_train.features.store import FeatureStore

TEXTS = "texts.json"


def record_texts(out: Path, texts: Mapping[str, Mapping[str, str]]) -> None:
    """Write what is encoded beside the vectors.

    Raises:
        DataError: texts of vectors that the store holds have changed.
    """
    recorded = read_json(out / TEXTS, "its texts") if (out / TEXTS).is_file() else {}
    store = FeatureStore(out) if (out / INDEX).is_file() else None
    kept: dict[str, dict[str, str]] = {}
    for stream, asked in texts.items():
        old = recorded.get(stream, {})
        kept[stream] = {key: text for key, text in old.items() if store is not None and store.has(key, stream)}
        if changed := [key for key, text in kept[stream].items() if asked.get(key, text) != text]:
            first = changed[0]
            raise DataError(
                f"{out} holds vectors of other texts than those of today for {len(changed)} keys of stream {stream!r}: "
                f"{shorten(changed, 5)} (first: {kept[stream][first]!r} there, {asked[first]!r} here). Choose another "
                "store"
            )
        kept[stream] |= asked
    write_json(out / TEXTS, kept)
