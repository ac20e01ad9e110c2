"""Evaluation: `python evaluate.py`, `python -m muvr_train.evaluate` or `muvr-evaluate`."""

from __future__ import annotations

from pathlib import Path

import hydra
from omegaconf import DictConfig

from muvr_train import cli
from muvr_train.config_checks import check_paths
from muvr_train.preflight.runs import tidy


@hydra.main(version_base="1.3", config_path=str(cli.config_dir()), config_name="evaluate")
def run(cfg: DictConfig) -> None:
    """Evaluate what the config says."""
    with cli.reporting(), tidy(Path(cfg.out)):
        check_paths(cfg)
        from muvr_train import runner

        runner.evaluate(cfg)


def main() -> None:
    """Check the settings with Hydra alone, then evaluate."""
    cli.start("evaluate")
    run()


if __name__ == "__main__":
    main()
