"""What the environment says about the processes that were started together, before anything heavy is imported."""

from __future__ import annotations

import os

PREPARED = "MUVR_TRAIN_PREPARED"
"""Set for the processes that a run starts itself: their arguments are checked and complete."""


def silence_torch() -> None:
    """Keep torch's C++ notices about unused parameters off the console, here and in the processes that are started."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def rank() -> int:
    """This process's rank among those started together (0 without a launcher)."""
    return next((int(os.environ[name]) for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK") if name in os.environ), 0)


def world_size() -> int:
    """How many processes torchrun or SLURM's srun has started together (1 without a launcher)."""
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    return int(os.environ.get("SLURM_NTASKS", 1)) if "SLURM_STEP_ID" in os.environ else 1
