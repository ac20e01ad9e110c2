"""Feature extraction: `python -m muvr_train.extract encoder=... videos=DIR out=STORE`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig, OmegaConf

from muvr_train import cli
from muvr_train.errors import ConfigError
from muvr_train.features.listing import list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.quoting import quote_override

DTYPES = ("float16", "bfloat16", "float32")


def compose(argv: list[str]) -> tuple[DictConfig, bool]:
    """Read the arguments; returns the config, and whether only to show it (`--cfg job`).

    Raises:
        ConfigError: a setting is unknown, missing or impossible.
    """
    args = get_args_parser().parse_intermixed_args(argv)
    extra = Path(args.config_dir) if args.config_dir else None
    cli.add_import_paths(extra)
    composer = Composer(cli.config_dir(), "extract", extra)
    cfg = cli.check(composer, [quote_override(text) for text in args.overrides], False)[0]
    FrameSampler(cfg.frames, cfg.fps)  # refuses what contradicts
    if cfg.dtype not in DTYPES:
        raise ConfigError(f"dtype={cfg.dtype} is not possible: choose from {', '.join(DTYPES)}")
    return cfg, args.cfg is not None


def run(cfg: DictConfig) -> int:
    """Extract what the config says and print the result; returns the exit code, 1 where a video failed."""
    videos = list_videos(cfg.videos)  # before anything heavy is imported

    import torch
    from hydra.utils import instantiate

    from muvr_train.features.extract import extract_folder

    device = ("cuda" if torch.cuda.is_available() else "cpu") if cfg.device == "auto" else cfg.device
    report = extract_folder(
        videos,
        instantiate(cfg.encoder, device=device),
        Path(cfg.out),
        frames=cfg.frames,
        fps=cfg.fps,
        dtype=cfg.dtype,
        workers=cfg.workers,
        save_every=cfg.save_every,
        shard_mib=cfg.shard_mib,
    )
    sys.stdout.write("\n".join(report.lines()) + "\n")
    return 0 if report.ok else 1


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
