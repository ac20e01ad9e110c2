"""The processes of an extraction: how they are started, and what they say when one of them is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from muvr_train.errors import ProcessError
from muvr_train.features.extract import ExtractSettings
from muvr_train.processes import Group
from muvr_train.training.lost import is_loss

LONGEST_WAIT = timedelta(days=1)  # of a process that is done for the one that is last
_MESSAGE = "process {rank} of the extraction stops: {why}. What was extracted is kept; run the same command again"


def make_trainer(device: torch.device, settings: ExtractSettings, callback: pl.Callback) -> pl.Trainer:
    """A trainer that predicts and does nothing else.

    Processes exchange little and wait long, so they do it on the CPU whatever the device: gloo notices at once when one
    of them is gone.
    """
    on_gpu = device.type == "cuda"
    devices: Any = settings.devices
    if on_gpu and devices == 1 and device.index is not None:
        devices = [device.index]
    strategy: Any = "auto"
    if settings.processes > 1:
        strategy = DDPStrategy(process_group_backend="gloo", timeout=LONGEST_WAIT)
    for name in ("pytorch_lightning.utilities.rank_zero", "lightning_fabric.utilities.distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return pl.Trainer(
        accelerator="gpu" if on_gpu else "cpu",
        devices=devices,
        num_nodes=settings.num_nodes,
        strategy=strategy,
        plugins=[] if settings.processes > 1 else [OneProcess()],
        callbacks=[callback],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        inference_mode=True,
    )


class OneProcess(LightningEnvironment):
    """A process on its own, also inside a job of SLURM or torchrun, whose environment is left as it is."""

    @property
    def creates_processes_externally(self) -> bool:
        """No: there are no others."""
        return False

    def local_rank(self) -> int:
        """The first."""
        return 0

    def node_rank(self) -> int:
        """The first."""
        return 0

    def set_global_rank(self, rank: int) -> None:
        """Leave Lightning's idea of this process's place in the job."""

    def teardown(self) -> None:
        """Leave WORLD_SIZE to the job."""


@contextmanager
def telling_losses(group: Group) -> Iterator[None]:
    """Turn the loss of another process into a message.

    Raises:
        ProcessError: another process has ended.
    """
    try:
        yield
    except RuntimeError as error:
        if group.size == 1 or not is_loss(error):
            raise
        raise lost(group, f"another one has ended, or gave no answer for {LONGEST_WAIT}") from error


def lost(group: Group, why: str) -> ProcessError:
    """What a process says that cannot go on without another one."""
    return ProcessError(_MESSAGE.format(rank=group.rank, why=why))
