"""Starting the processes of a run, and handing out work that only the first one does.

Lightning starts them (or torchrun, SLURM and the like have done so, which Lightning recognises); afterwards every
process runs the same program, and `processes.Group` says which one it is. Lightning takes seconds to import: a run of
one process does without.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.distributed as dist

from muvr_train.errors import ConfigError, ProcessError
from muvr_train.launched import PREPARED, world_size
from muvr_train.processes import SINGLE, Group
from muvr_train.training.lost import Children

if TYPE_CHECKING:
    from pytorch_lightning.strategies import DDPStrategy

T = TypeVar("T")
PATIENCE = timedelta(days=1)
"""How long the others wait for the first process while it prepares data."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Here:
    """This process: its place among those of the run, its device ("cpu", "cuda", "cuda:1"), and what it has started."""

    device: str
    group: Group = SINGLE
    children: Children | None = None


def start_processes(device: str, devices: int | str, num_nodes: int, timeout: float) -> Here:
    """Start the processes of this run, or join those that a launcher has started.

    Args:
        device: "cuda" or "cpu".
        devices: processes on each machine; "auto" is one per GPU.
        num_nodes: machines.
        timeout: seconds after which a process that does not answer ends the run.

    Raises:
        ConfigError: fewer devices than asked for, or a launcher that started another number of processes.
    """
    each, started = count_devices(device, devices), world_size()
    if each * num_nodes != started and started > 1:
        raise ConfigError(
            f"a launcher started {started} processes, but trainer.devices={devices} with trainer.num_nodes={num_nodes} "
            f"asks for {each * num_nodes}: give trainer=ddp (ddp_cpu, multi_node) and numbers that agree"
        )
    if each * num_nodes == 1:
        return Here(device)
    from lightning_fabric import Fabric

    from muvr_train.training.launcher import Strategy

    os.environ[PREPARED] = "1"  # for the processes that are started now: the arguments are checked and complete
    strategy = Strategy(process_group_backend=backend(device), timeout=timedelta(seconds=timeout))
    fabric = Fabric(
        accelerator="gpu" if device == "cuda" else "cpu", devices=each, num_nodes=num_nodes, strategy=strategy
    )
    try:
        fabric.launch()
    except ValueError as error:  # Lightning's check of the launcher's environment
        raise ConfigError(f"trainer.devices={devices}, trainer.num_nodes={num_nodes}: {error}") from error
    group = Group(fabric.global_rank, fabric.world_size)
    children = None
    if group.is_first:
        log.info("%d processes, %s", group.size, backend(device))
        children = Children(getattr(strategy.launcher, "procs", []))
    else:
        keep_quiet()
    return Here(str(fabric.device), group, children)


def count_devices(device: str, devices: int | str) -> int:
    """Devices of this machine that are asked for.

    Raises:
        ConfigError: it has fewer.
    """
    there = torch.cuda.device_count() if device == "cuda" else 1
    if devices == "auto":
        return there
    if device == "cuda" and int(devices) > there:
        raise ConfigError(f"trainer.devices={devices}, but this machine has {there} GPUs")
    return int(devices)


def backend(device: str) -> str:
    """What carries the exchange: scores are gathered on the CPU, gradients where the model is."""
    return "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"


def ddp_strategy(device: str, timeout: float) -> DDPStrategy:
    """Data-parallel training whose processes may each use other parameters (their rows may lack a part)."""
    from pytorch_lightning.strategies import DDPStrategy

    return DDPStrategy(
        process_group_backend=backend(device),
        timeout=timedelta(seconds=timeout),
        find_unused_parameters=True,
        broadcast_buffers=False,
    )


def keep_quiet() -> None:
    """Leave the console to the first process; the log file of this one keeps everything."""
    warnings.filterwarnings("ignore")
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler):
            handler.setLevel(logging.CRITICAL)


def first_then_all(group: Group, make: Callable[[], T]) -> T:
    """Call `make` in the first process (it may take hours and fill caches), then in the others.

    Raises:
        Exception: what `make` raised; in the other processes a `ProcessError` that is not shown.
    """
    if group.size == 1:
        return make()
    patient: Any = dist.new_group(backend="gloo", timeout=PATIENCE)
    made: Any = None
    told: list[bool] = [True]
    error: Exception | None = None
    if group.is_first:
        try:
            made = make()
        except Exception as caught:  # noqa: BLE001 (raised again below, after the others know)
            told, error = [False], caught
    dist.broadcast_object_list(told, src=0, group=patient)
    if error is not None:
        raise error
    if not told[0]:
        raise ProcessError("process 0 has stopped and says why", shown=False)
    return made if group.is_first else make()
