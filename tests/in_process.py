"""evaluate.py in the process of a test: what is typed is prepared, composed and run, without Hydra's folders."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from muvr_train import cli, runner
from muvr_train.preflight.compose import Composer


def composed(*arguments: str, extra: Path | None = None) -> DictConfig:
    """Compose what is typed, with a folder of further configs."""
    argv = [*arguments, *(["--config-dir", str(extra)] if extra else [])]
    texts = [text for text in cli.prepare(argv, "evaluate") if "=" in text and not text.startswith("-")]
    cfg = Composer(cli.config_dir(), "evaluate", extra).compose(texts)
    return OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])


def evaluate(*arguments: str, extra: Path | None = None) -> dict[str, float]:
    """Evaluate what is typed, into its folder."""
    cfg = composed(*arguments, extra=extra)
    Path(cfg.out).mkdir(parents=True, exist_ok=True)
    return runner.evaluate(cfg)
