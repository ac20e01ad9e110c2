"""Feature extraction: `python -m muvr_train.extract encoder=... videos=DIR out=STORE`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig, OmegaConf

from muvr_train import cli
from muvr_train.features.listing import Videos, list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.quoting import quote_override


def compose(argv: list[str]) -> tuple[DictConfig, bool]:
    """Read the arguments; returns the config, and whether only to show it (`--cfg job`).

    Raises:
        ConfigError: a setting is unknown, missing or impossible.
    """
    args = get_args_parser().parse_intermixed_args(argv)
    extra = Path(args.config_dir) if args.config_dir else None
    cli.add_import_paths(extra)
    composer = Composer(cli.config_dir(), "extract", extra)
    texts = [quote_override(text) for text in args.overrides]
    if any(text.startswith("list=") for text in texts):
        texts = ["videos=.", "out=.", *texts]  # nothing is extracted
    cfg = cli.check(composer, texts, False, features=False)[0]
    sampler_of(cfg)  # refuses what contradicts
    return cfg, args.cfg is not None


def sampler_of(cfg: DictConfig) -> FrameSampler:
    """Which frames are taken.

    Raises:
        ConfigError: settings that contradict each other.
    """
    return FrameSampler(cfg.frames, cfg.fps, **({} if cfg.sampling is None else {"kind": cfg.sampling}))


def run(cfg: DictConfig) -> int:
    """Extract what the config says and print the result; returns the exit code, 1 where a video failed."""
    videos = list_videos(cfg.videos)  # before anything heavy is imported

    import torch
    from hydra.utils import instantiate

    device = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    report = _extract(cfg, videos, instantiate(cfg.encoder, device=device))
    if report is None:  # another process of this run reports
        return 0
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 0 if report.ok or cfg.allow_failures else 1


def _extract(cfg: DictConfig, videos: Videos, encoder: Any) -> Any:
    from muvr_train.features.extract import ExtractSettings
    from muvr_train.training.extraction import extract_folder

    names = ("dtype", "workers", "timeout", "save_every", "shard_mib", "devices", "num_nodes")
    settings = ExtractSettings(**{name: cfg[name] for name in names})
    return extract_folder(videos, encoder, Path(cfg.out), sampler_of(cfg), settings)


def main() -> None:
    """Check the settings, extract, exit."""
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    with cli.reporting():
        cfg, show = compose(sys.argv[1:])
        if show:
            sys.stdout.write(OmegaConf.to_yaml(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])))
            return
        sys.exit(run(cfg))


if __name__ == "__main__":
    main()
