"""Evaluation: `python evaluate.py`, `python -m muvr_train.evaluate` or `muvr-evaluate`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from muvr_train import cli, ending


@hydra.main(version_base="1.3", config_path=str(cli.config_dir()), config_name="evaluate")
def run(cfg: DictConfig) -> None:
    """Evaluate what the config says."""
    with ending.guarded(cfg):
        from muvr_train import runner

        runner.evaluate(cfg)


def main() -> None:
    """Check the settings with Hydra alone, then evaluate."""
    cli.start("evaluate")
    run()
    ending.end_sweep()


if __name__ == "__main__":
    main()
