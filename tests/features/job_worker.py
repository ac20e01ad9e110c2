"""What each process of tests/features/test_extract_jobs.py does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from muvr_train.features.extract import ExtractSettings
from muvr_train.processes import Group
from muvr_train.training.extraction import extract_folder
from tests.toy_encoder import Means


def environment(launcher: str, rank: int, size: int) -> dict[str, str]:
    """What a launcher of several processes tells each of them."""
    if launcher == "torchrun":
        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size, "GROUP_RANK": 0}
        more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "none"}
    else:
        names = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_NTASKS": size, "SLURM_NTASKS_PER_NODE": size}
        more = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_STEP_ID": "0", "SLURM_NODEID": "0"}
    return {name: str(value) for name, value in names.items()} | more


def extract_alone(group: Group, videos: Path, root: Path) -> dict[str, Any]:
    """Process 0 extracts while the others wait, then each of them does, as where a run completes its cache."""
    from lightning_utilities.core.rank_zero import rank_zero_only

    found: dict[str, Any] = {}
    for launcher in ("torchrun", "slurm"):
        given = environment(launcher, group.rank, group.size)
        os.environ.update(given)
        rank_zero_only.rank = group.rank
        settings, out = ExtractSettings(workers=1, progress=False), root / launcher
        for turn in range(group.size):
            if turn == group.rank:
                report = extract_folder(videos, Means(), out, settings=settings)
            group.barrier()
        assert report is not None
        kept = {name: os.environ.get(name) for name in given} == given and rank_zero_only.rank == group.rank
        found[launcher] = (report.ok, len(report.statuses), len(report.new), kept)
        for name in given:
            del os.environ[name]
    return found
