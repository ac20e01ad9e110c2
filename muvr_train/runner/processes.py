"""The processes of a run, as its config asks for them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from omegaconf import DictConfig

from muvr_train.errors import ConfigError
from muvr_train.processes import SINGLE, Group
from muvr_train.training.launch import noticing, start_processes


@dataclass(frozen=True)
class Here:
    """This process: its place among those of the run, and its device ("cpu", "cuda", "cuda:1")."""

    device: str
    group: Group = SINGLE


@contextmanager
def started(cfg: DictConfig, device: str) -> Iterator[Here]:
    """Start the run's processes (see `start_processes`); the loss of one of them ends the others with a message."""
    quiet_lightning()
    settings = cfg.trainer
    group, own = start_processes(device, settings.devices, settings.num_nodes, settings.timeout)
    last = f"checkpoints/{cfg.run}" if "run" in cfg else None
    advice = f" Go on with resume_from={last}." if last else ""
    with noticing(group, settings.timeout, f"The log files of the others say more ({last or cfg.out}/*.log).{advice}"):
        yield Here(own, group)


def quiet_lightning() -> None:
    """Keep Lightning's notices about hardware and its own products out of the log; warnings stay."""
    for name in ("pytorch_lightning", "lightning_fabric", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=FutureWarning)
    warnings.filterwarnings("ignore", message=".*LeafSpec.*", category=DeprecationWarning)
    warnings.filterwarnings("ignore", message=".*broadcast_buffers.*")
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*not resumable.*")


def pick_device(cfg: DictConfig) -> str:
    """Give "cuda" or "cpu", and refuse what the machine cannot do."""
    wanted = cfg.trainer.accelerator
    if wanted == "gpu" and not torch.cuda.is_available():
        raise ConfigError("trainer.accelerator=gpu, but torch finds no CUDA device; use trainer=cpu")
    device = "cuda" if wanted in ("gpu", "auto") and torch.cuda.is_available() else "cpu"
    if str(cfg.trainer.get("precision", 32)) == "16-mixed" and device == "cpu":
        raise ConfigError("trainer.precision=16-mixed needs a GPU; on a CPU use 32 or bf16-mixed")
    torch.backends.cudnn.allow_tf32 = False  # float32 means float32: scores must not depend on blocks
    return device
