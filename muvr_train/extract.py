"""Feature extraction: `python -m muvr_train.extract encoder=... videos=DIR out=STORE`."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from hydra._internal.utils import get_args_parser
from omegaconf import DictConfig, OmegaConf

from muvr_train import cli
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
    return cli.check(composer, [quote_override(text) for text in args.overrides], False)[0], args.cfg is not None


def run(cfg: DictConfig) -> int:
    """Extract what the config says and print the result; returns the exit code, 1 where a video failed."""
    import torch
    from hydra.utils import instantiate

    from muvr_train.features.extract import extract_folder
    from muvr_train.features.listing import list_videos

    videos = list_videos(cfg.videos)  # before a model is built
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
