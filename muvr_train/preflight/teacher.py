"""The teacher of a distillation: that it is there, and that a loss reads it."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from muvr_train.errors import ConfigError
from muvr_train.preflight.exported import checkpoint_file

DISTILLATION = "muvr_train.losses.distillation.DistillationLoss"


def teacher_file(value: str) -> Path:
    """The checkpoint that `teacher` names: a file, or the best one of a run's folder.

    Raises:
        ConfigError: there is none.
    """
    return checkpoint_file(value, "teacher")


def check_teacher(cfg: DictConfig) -> None:
    """Check `teacher` as far as the config tells; of losses from elsewhere it cannot tell whether they read one.

    Raises:
        ConfigError: no such checkpoint, a teacher that no loss reads, or a loss that lacks one.
    """
    losses = OmegaConf.select(cfg, "loss.losses")
    if not isinstance(losses, DictConfig):
        return
    entries = {str(name): str(OmegaConf.select(loss, "_target_")) for name, loss in losses.items() if loss is not None}
    readers = [name for name, target in entries.items() if target == DISTILLATION]
    if cfg.get("teacher") is not None:
        teacher_file(cfg.teacher)
        if not readers and all(target.startswith("muvr_train.losses.") for target in entries.values()):
            raise unread_teacher(cfg)
    elif readers:
        raise missing_teacher(readers[0])


def missing_teacher(name: str) -> ConfigError:
    """The refusal of a loss without the teacher that it needs."""
    return ConfigError(f"loss.losses.{name} learns the scores of another model: give teacher=checkpoints/NAME")


def unread_teacher(cfg: DictConfig) -> ConfigError:
    """The refusal of a teacher that nothing reads."""
    return ConfigError(
        f"teacher={cfg.teacher}: none of the losses reads it. Give loss=distillation, or add a DistillationLoss to "
        "loss.losses"
    )
