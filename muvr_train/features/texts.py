"""Query texts into a feature store, beside the frames they are compared with."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from muvr_train.benchmarks.muvr_filter import filter_rows
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError, shorten
from muvr_train.features.entries import FeatureError
from muvr_train.features.index import INDEX, MANIFEST
from muvr_train.features.placeholders import DEFAULT, plain_texts
from muvr_train.features.shards import read_json, write_json
from muvr_train.features.store import tag_key
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
    dtype: str | None = "float16",
    batch_size: int = 256,
    stream: str = "text",
    unusable: list[str] | None = None,
) -> int:
    """Encode the texts that the store lacks and add them as [1, 1, D_text] to a stream; equal texts are encoded once.

    Args:
        out: the store.
        manifest: the store's own manifest (it must name the text encoder).
        texts: query id to text.
        encoder: turns texts into vectors.
        dtype: of the store.
        batch_size: texts encoded at a time.
        stream: where to add them: "text", or "tags" (keys from `store.tag_key`).
        unusable: takes one line for every vector that no store can hold; None raises instead.

    Returns:
        How many were added.

    Raises:
        FeatureError: a vector that no store can hold; the others of its batch may be missing.
    """
    added = 0
    with StoreWriter(out, manifest, dtype) as writer:
        done = writer.done(stream)
        todo: dict[str, list[str]] = {}
        for key in texts:
            if key not in done:
                todo.setdefault(texts[key], []).append(key)
        once = list(todo)
        for start in range(0, len(once), batch_size):
            block = once[start : start + batch_size]
            for text, vector in zip(block, encoder.encode_texts(block), strict=True):
                for key in todo[text]:
                    try:
                        writer.add(key, vector[None, None], stream=stream)
                        added += 1
                    except FeatureError as error:
                        if unusable is None:
                            raise
                        unusable.append(str(error))
    return added


def texts_of(benchmark: Benchmark, placeholders: str = DEFAULT) -> dict[str, str]:
    """Collect the texts of the queries that have one, by query id, as they are encoded.

    Args:
        benchmark: its queries.
        placeholders: the rule for `<region>` and `<mask...>` (`placeholders.replace_placeholders`).

    Raises:
        ConfigError: an unknown rule.
        DataError: texts that hold nothing but placeholders, by query id.
    """
    return plain_texts({query.id: query.text for query in benchmark.queries if query.text}, placeholders)


def tag_texts_of(benchmark: Benchmark) -> dict[str, str]:
    """Collect the tags of all tag expressions, by the keys of their vectors."""
    pairs = (pair for partition in benchmark.partitions for row in filter_rows(partition) for pair in row.pairs)
    return {tag_key(query, tag): tag for query, tag in pairs}


def all_tag_texts_of(benchmark: Benchmark) -> dict[str, str]:
    """Collect the tags of all tag expressions and the queries' own ones without their sign, by their vectors' keys.

    Raises:
        DataError: tags without a letter, by query id.
    """
    own = [(query.id, re.sub(r"^[+-]\s*", "", tag.strip())) for query in benchmark.queries for tag in query.tags]
    found = tag_texts_of(benchmark) | {tag_key(query, tag): tag for query, tag in own}
    if empty := [key for key, tag in found.items() if not re.search(r"\w", tag)]:
        raise DataError(f"{len(empty)} tags say nothing (query, tag): {shorten(empty, 5)}. Take them out, or name them")
    return found


def store_with_texts(
    base: Path,
    manifest: Mapping[str, Any],
    texts: Mapping[str, str],
    encoder: TextEncoder,
    dtype: str = "float16",
    tags: Mapping[str, str] = MappingProxyType({}),
    beside: Mapping[str, str] = MappingProxyType({}),
) -> Path:
    """Give a store beside `base` with the same features and the vectors of exactly these texts.

    The features are shared with `base` on disk. Changed texts give another store, so nobody reads the vector of a text
    as it was before.

    Args:
        base: a store in the cache, without texts.
        manifest: its manifest (it must name the text encoder).
        texts: query id to text; where there is none, `base` itself is given.
        encoder: turns texts into vectors.
        dtype: of the store.
        tags: key (`store.tag_key`) to tag, for the stream "tags".
        beside: what else the caller adds to this store (key to hash), so that the store's name tells it.
    """
    if not texts and not tags and not beside:
        return base
    out = text_store(base, {**texts, **tags, **beside})
    if not (out / INDEX).exists():
        _share(base, out)
    add_texts(out, manifest, texts, encoder, dtype)
    add_texts(out, manifest, tags, encoder, dtype, stream="tags")
    return out


def text_store(base: Path, texts: Mapping[str, str]) -> Path:
    """Where `store_with_texts` puts a store: its name tells the state of `base` and the texts."""
    content = json.dumps([_features(base), sorted(texts.items())], sort_keys=True)
    return base.with_name(f"{base.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}")


def _features(base: Path) -> dict[str, Any]:
    streams = read_json(base / INDEX, "the store's index")["streams"]
    return {name: entry for name, entry in streams.items() if name not in ("text", "tags")}


def _share(base: Path, out: Path) -> None:
    """Begin a store with the features of another one; their files are linked, or copied where that is impossible."""
    features, index = _features(base), read_json(base / INDEX, "the store's index")
    out.mkdir(parents=True, exist_ok=True)
    manifest = read_json(base / MANIFEST, "the store's manifest")
    described = {name: entry for name, entry in manifest.get("streams", {}).items() if name in features}
    for file in (shard["file"] for entry in features.values() for shard in entry["shards"]):
        (out / file).unlink(missing_ok=True)
        try:
            os.link(base / file, out / file)
        except OSError:
            shutil.copyfile(base / file, out / file)
    write_json(out / MANIFEST, {**manifest, "streams": described})
    write_json(out / INDEX, {**index, "streams": features})
