"""Training: `python train.py`, `python -m muvr_train.train` or `muvr-train`."""

from __future__ import annotations

import hydra
from omegaconf import DictConfig

from muvr_train import cli, ending


@hydra.main(version_base="1.3", config_path=str(cli.config_dir()), config_name="train")
def run(cfg: DictConfig) -> None:
    """Train what the config says."""
    with ending.guarded(cfg):
        from muvr_train import runner

        runner.train(cfg)


def main() -> None:
    """Check the settings with Hydra alone, then train."""
    cli.start("train")
    run()


if __name__ == "__main__":
    main()
