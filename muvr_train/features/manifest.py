"""The manifest of a feature store: how its features were made."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from muvr_train.errors import DataError
from muvr_train.features.index import MANIFEST
from muvr_train.features.shards import read_json, write_json
from muvr_train.launched import rank

_BOOKKEEPING = ("created_by", "streams")  # keys that may differ between two runs of the same job


def make_manifest(
    encoder: str,
    *,
    pretrained: str | None = None,
    weights_hash: str | None = None,
    preprocessing: Any = None,
    sampling: Any = None,
    text_encoder: str | None = None,
    text_aligned: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """The manifest that every store has: how its features were made.

    Args:
        encoder: name of the frame encoder ("unknown" where features were imported).
        pretrained: tag of its weights.
        weights_hash: hash of its weights.
        preprocessing: plain data that says what is done to a picture before the encoder.
        sampling: plain data that says which frames are taken.
        text_encoder: name of the encoder of texts and tags, None where there are none.
        text_aligned: whether the texts live in the space of the frame features, so that their cosine means something.
        **more: further plain data.
    """
    return {
        "encoder": encoder,
        "pretrained": pretrained,
        "weights_hash": weights_hash,
        "preprocessing": preprocessing,
        "sampling": sampling,
        "text_encoder": text_encoder,
        "text_aligned": text_aligned,
        **more,
    }


def version() -> str:
    """The installed version of this package."""
    try:
        return metadata.version("muvr-train")
    except metadata.PackageNotFoundError:
        return "(not installed)"


def differing_keys(one: Mapping[str, Any], other: Mapping[str, Any], *, same_job: bool = False) -> list[str]:
    """The manifest keys in which two stores differ, apart from bookkeeping.

    `same_job` also compares "source" (what was imported), which may differ between stores that are used together.
    """
    ignored = _BOOKKEEPING if same_job else (*_BOOKKEEPING, "source")
    keys = [key for key in {**one, **other} if key not in ignored]
    return [key for key in keys if one.get(key) != other.get(key)]


def check_same_features(one: Mapping[str, Any], other: Mapping[str, Any], what: str, *, same_job: bool = False) -> None:
    """Raise a DataError that shows both manifests where features were not made in the same way."""
    keys = differing_keys(one, other, same_job=same_job)
    if keys:
        lines = "\n".join(f"  {key}: {one.get(key)!r} there, {other.get(key)!r} here" for key in keys)
        raise DataError(f"{what}:\n{lines}")


OPTIONAL = ("views", "placeholders")
"""Keys that a store may gain after its frames were made."""
LATER = ("dtype", "whitening_hash")
"""Keys that are known only when a store is written."""


def adopt_optional(store: Path, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Agree with a store on the keys that it may gain later.

    The manifest takes those about which this run has nothing to say; the store gains those that it lacks, where it is
    equal in everything else (and is left as it is where it is not: its writer then refuses).

    Args:
        store: the store's folder; it may not exist yet.
        manifest: of this run.

    Returns:
        The manifest to go on with.
    """
    if not (store / MANIFEST).is_file():
        return dict(manifest)
    stored = read_json(store / MANIFEST, "the store's manifest")
    kept = {key: stored[key] for key in OPTIONAL if key in stored and key not in manifest}
    gained = {key: manifest[key] for key in OPTIONAL if key in manifest and key not in stored}
    made: dict[str, Any] = {**manifest, **kept}
    later: dict[str, Any] = {key: stored[key] for key in LATER if key in stored and key not in made}
    if gained and rank() == 0 and not differing_keys({**stored, **gained}, {**made, **later}, same_job=True):
        write_json(store / MANIFEST, {**stored, **gained})
    return made
