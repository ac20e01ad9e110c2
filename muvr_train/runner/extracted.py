"""Features of a folder of videos, extracted into the cache when a run first needs them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from muvr_train.cache import cache_root, locked
from muvr_train.errors import DataError
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.whitening import FITTED
from muvr_train.features.listing import Videos, list_videos, renamed
from muvr_train.features.texts import store_with_texts

log = logging.getLogger(__name__)


def extracted(
    cfg: DictConfig,
    videos: Path,
    device: str,
    texts: Mapping[str, str],
    text_encoder: Any = None,
    items: list[tuple[str, Path]] | None = None,
    tags: Mapping[str, str] | None = None,
    masks: Mapping[str, Path] | None = None,
) -> Path:
    """Extract a folder of videos, and texts, tags and regions of the queries, into the cache; give the store's folder.

    Args:
        cfg: names the frame encoder.
        videos: the folder.
        device: where to encode.
        texts: query id to text.
        text_encoder: for the texts; None takes the frame encoder's own text tower, where it has one.
        items: ids and paths of the videos to extract; None for all in the folder, named by their paths.
        tags: key of a tag's vector to tag.
        masks: query id (which is also the id of its video) to the file or folder of its masks.

    Raises:
        DataError: videos that could not be extracted (the good ones are kept), or masks without region features.
    """
    from muvr_train.features.cached import store_name
    from muvr_train.features.extract import extraction_manifest
    from muvr_train.features.masked import complete_regions, mask_digests
    from muvr_train.features.sampling import FrameSampler

    encoder = instantiate(cfg.encoder, device=device)
    if text_encoder is None and hasattr(encoder, "encode_texts"):
        text_encoder = encoder
    more = text_encoder.manifest() if text_encoder is not None and text_encoder is not encoder else {}
    items = renamed(list_videos(videos)) if items is None else items
    out = cache_root() / "features" / store_name(videos, encoder, more=more, items=items)
    with locked(out.with_name(f"{out.name}.lock")):  # one process at a time: those of a run all come here
        _complete(cfg, videos, items, encoder, out, more)
        if encoder.needs_fit:  # nothing was lacking: the store holds what the encoder has learned
            encoder.load_fit(out / FITTED)
        if text_encoder is None:
            return out
        manifest = extraction_manifest(encoder, FrameSampler(), more)
        masks = masks or {}
        store = store_with_texts(out, manifest, texts, text_encoder, tags=tags or {}, beside=mask_digests(masks))
        complete_regions(store, manifest, encoder, masks, {query: dict(items)[query] for query in masks})
        return store


def _complete(
    cfg: DictConfig, videos: Path, items: Videos, encoder: FrameEncoder, out: Path, more: Mapping[str, Any]
) -> None:
    """Extract what the store at `out` lacks."""
    from muvr_train.features.extract import plain_jobs
    from muvr_train.features.sampling import FrameSampler
    from muvr_train.features.session import lacking
    from muvr_train.features.status import FILE

    if not lacking(plain_jobs(items, FrameSampler()), encoder.streams, out):
        return
    from muvr_train.training.extraction import extract_folder

    report = extract_folder(items, encoder, out, more=more)
    if report is not None and not report.ok:
        message = f"{len(report.failures)} of {len(items)} videos in {videos} have no features: {out / FILE}"
        if cfg.on_missing == "error":
            raise DataError(f"{message}. Repair or remove them (the others are kept), or pass on_missing=official")
        log.warning("%s", message)
