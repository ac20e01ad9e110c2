"""An extraction by one process out of several: a training run in a job of SLURM or torchrun completes its cache."""

from __future__ import annotations

from pathlib import Path

from muvr_train.features.store import FeatureStore
from tests.features.job_worker import extract_alone
from tests.together import together
from tests.toy_encoder import write_grey


def test_one_process_of_a_job_extracts_alone_and_leaves_the_jobs_environment_as_it_is(tmp_path: Path) -> None:
    for name in "abc":
        write_grey(tmp_path / "videos" / f"{name}.mp4", [10, 20, 30])
    found = together((2,), tmp_path / "exchange", extract_alone, tmp_path / "videos", tmp_path)[2]
    for launcher in ("torchrun", "slurm"):
        assert [one[launcher] for one in found] == [(True, 3, 3, True), (True, 3, 0, True)]
        assert FeatureStore(tmp_path / launcher).ids() == ["a", "b", "c"]
