"""Feature extraction: `python -m muvr_train.extract encoder=... videos=DIR out=STORE`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from muvr_train import cli, ending
from muvr_train.errors import ConfigError
from muvr_train.features.annotations import annotated_videos
from muvr_train.features.encoders.listing import EncoderRow, list_encoders
from muvr_train.features.listing import Videos, list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.preflight.complete import check_folder
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.flags import parse_flags
from muvr_train.preflight.quoting import quote_override

SHEET = "views.png"
SHOWN = 6  # videos on it


def compose(argv: list[str]) -> tuple[DictConfig, bool]:
    """Read the arguments; returns the config, and whether only to show it (`--cfg job`).

    Raises:
        ConfigError: a setting is unknown, missing or impossible.
    """
    args = parse_flags(argv)
    extra = Path(args.config_dir) if args.config_dir else None
    cli.add_import_paths(extra)
    composer = Composer(cli.config_dir(), "extract", extra)
    texts = [quote_override(text) for text in args.overrides]
    if any(text.startswith("list=") for text in texts):
        texts = ["videos=.", "out=.", *texts]  # nothing is extracted
    cfg = cli.check(composer, texts, False, features=False)[0]
    check_folder(cfg.out)
    sampler_of(cfg)  # refuses what contradicts
    if cfg.masks and not cfg.annotations:
        raise ConfigError(f"masks={cfg.masks} needs annotations=..., which says what the queries are")
    return cfg, args.cfg is not None


def sampler_of(cfg: DictConfig) -> FrameSampler:
    """Which frames are taken.

    Raises:
        ConfigError: settings that contradict each other.
    """
    return FrameSampler(cfg.frames, cfg.fps, cfg.sampling)


def run(cfg: DictConfig) -> int:
    """Extract what the config says and print the result; returns the exit code, 1 where something failed."""
    if not cfg.annotations:
        videos = list_videos(cfg.videos)  # before anything heavy is imported

    import torch
    from hydra.utils import instantiate

    from muvr_train.features.annotate import add_annotations, load_annotations, prepare_store
    from muvr_train.features.extract import ExtractSettings, extraction_manifest
    from muvr_train.features.manifest import adopt_optional
    from muvr_train.training.extraction import extract

    annotations = load_annotations(cfg.annotations, cfg.masks, cfg.placeholders) if cfg.annotations else None
    if annotations is not None:
        videos = annotated_videos(cfg.videos, cfg.annotations, annotations.benchmark, not cfg.allow_failures)
    device = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    encoder = instantiate(cfg.encoder, device=device)
    out, sampler = Path(cfg.out), sampler_of(cfg)
    jobs, more = _jobs(cfg, videos, encoder)
    names = ("dtype", "workers", "timeout", "save_every", "shard_mib", "devices", "num_nodes")
    settings = ExtractSettings(**{name: cfg[name] for name in names})
    more |= {} if annotations is None else annotations.manifest()
    manifest = extraction_manifest(encoder, sampler, more)
    if annotations is not None:
        prepare_store(out, encoder, annotations, {**manifest, "dtype": cfg.dtype})
    manifest = adopt_optional(out, manifest)
    report = extract(jobs, encoder, out, manifest, settings)
    if report is None:  # another process of this run reports
        return 0
    lines, ok = report.lines(), report.ok
    if cfg.views and report.new:
        _save_sheet(out, jobs, [status.id for status in report.new[:SHOWN]], settings)
        lines.append(f"{'views':<14}{out / SHEET}")
    if annotations is not None:
        added = add_annotations(out, encoder, annotations, videos, sampler, settings)
        lines, ok = [*lines, *added.lines()], ok and added.ok
    sys.stdout.write("\n".join(lines) + "\n")
    return 0 if ok or cfg.allow_failures else 1


def _jobs(cfg: DictConfig, videos: Videos, encoder: Any) -> tuple[list[Any], dict[str, Any]]:
    """What is decoded, and what the manifest says about it beyond the encoder and the sampling."""
    from muvr_train.features.extract import plain_jobs
    from muvr_train.features.views import views_jobs, views_manifest

    sampler, drawn = sampler_of(cfg), (cfg.view_strength, cfg.seed, encoder.size)
    if not cfg.views:
        return list(plain_jobs(videos, sampler)), {}
    return list(views_jobs(videos, sampler, cfg.views, *drawn)), {"views": views_manifest(*drawn)}


def _save_sheet(out: Path, jobs: list[Any], shown: list[str], settings: Any) -> None:
    from muvr_train.features.view_sheet import save_view_sheet

    save_view_sheet(out / SHEET, [job for job in jobs if job.id in shown], settings.decoders, settings.timeout)


def show_encoders(pattern: str) -> None:
    """Print the encoders whose names match."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*EncoderRow.heads(), box=None, pad_edge=False)
    for row in list_encoders(pattern, cli.config_dir() / "encoder"):
        table.add_row(*row.cells())
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def main() -> None:
    """Check the settings, extract, exit."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    with ending.reporting():
        cfg, show = compose(sys.argv[1:])
        if show:
            sys.stdout.write(OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])))
            return
        if cfg.list is not None:
            show_encoders(str(cfg.list))
            return
        sys.exit(run(cfg))


if __name__ == "__main__":
    main()
