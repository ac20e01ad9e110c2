"""Extracted folders in the cache: how their stores are named, and found again without loading an encoder."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.extract import extraction_manifest
from muvr_train.features.index import MANIFEST
from muvr_train.features.listing import Videos, list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.shards import read_json

_WRITTEN = ("created_by", "streams", "dtype", "whitening_hash")
"""Keys of a stored manifest that came with its making."""


def store_name(
    videos: Path,
    encoder: FrameEncoder,
    sampler: FrameSampler | None = None,
    more: Mapping[str, Any] | None = None,
    items: Videos | None = None,
) -> str:
    """A folder name for the features of `videos` in a cache.

    Another folder, encoder, sampling, or a file that was added, removed or replaced since, gives another name.

    Args:
        videos: The folder.
        encoder: Makes the features.
        sampler: Chooses the frames.
        more: Further manifest entries.
        items: The (id, path) pairs that are extracted of the folder; None for all.
    """
    made = extraction_manifest(encoder, sampler or FrameSampler(), more)
    return _name(videos, encoder.name, made, list_videos(videos) if items is None else items)


def find_extracted(videos: Path, items: Videos, cache: Path) -> list[Path]:
    """The stores in a cache that were extracted from the present state of a folder, by any encoder; newest first.

    Args:
        videos: The folder.
        items: The (id, path) pairs of which features are wanted.
        cache: The cache folder.
    """
    found = []
    for manifest in (cache / "features").glob(f"{_prefix(videos)}-*/{MANIFEST}"):
        content = read_json(manifest, "the store's manifest")
        made = {key: value for key, value in content.items() if key not in _WRITTEN}
        if manifest.parent.name == _name(videos, str(content.get("encoder")), made, items):
            found.append(manifest.parent)
    return sorted(found, key=lambda store: store.stat().st_mtime, reverse=True)


def _prefix(videos: Path) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", videos.resolve().name)[:40]


def _name(videos: Path, encoder: str, manifest: Mapping[str, Any], items: Videos) -> str:
    files = [(name, path.stat().st_size, path.stat().st_mtime_ns) for name, path in items]
    made = {
        **manifest,
        "videos": str(videos.resolve()),
        "files": hashlib.blake2b(repr(files).encode(errors="surrogateescape"), digest_size=16).hexdigest(),
    }
    made.pop("created_by", None)
    digest = hashlib.blake2b(json.dumps(made, sort_keys=True).encode(errors="surrogateescape"), digest_size=8)
    return f"{_prefix(videos)}-{encoder}-{digest.hexdigest()}"
