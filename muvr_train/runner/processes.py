"""The processes of a run, as its config asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from omegaconf import DictConfig

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
    settings = cfg.trainer
    group, own = start_processes(device, settings.devices, settings.num_nodes, settings.timeout)
    last = f"checkpoints/{cfg.run}" if "run" in cfg else None
    advice = f" Go on with resume_from={last}." if last else ""
    with noticing(group, settings.timeout, f"The log files of the others say more ({last or cfg.out}/*.log).{advice}"):
        yield Here(own, group)
