"""What each process of tests/features/test_session.py does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from muvr_train.features.batches import Finished
from muvr_train.features.extract import final_statuses
from muvr_train.features.jobs import Job, PlainJob
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.session import PARTS, ExtractionSession, lacking
from muvr_train.features.status import VideoStatus
from muvr_train.features.writer import StoreWriter
from muvr_train.processes import SINGLE, Group
from tests.together import outcome


def jobs_of(names: str) -> list[Job]:
    return [PlainJob(name, Path(f"{name}.mp4"), FrameSampler()) for name in names]


def session_of(out: Path, names: str, encoder: str = "x") -> ExtractionSession:
    return ExtractionSession(jobs_of(names), ("video",), out, {"encoder": encoder}, "float32", 60.0, 1.0)


def work(session: ExtractionSession, group: Group = SINGLE) -> list[str]:
    """Open, and make features of what this process is given."""
    session.claim(group)
    given = [job.id for job in session.open(group)]
    for name in given:
        values = torch.full((2, 1, 3), float(ord(name)))
        session.record(Finished(VideoStatus(name, f"{name}.mp4", "ok", "", 2, 2, 2, "pyav"), {"video": values}))
    return given


def share_work(group: Group, root: Path) -> dict[str, Any]:
    """Extractions by all processes; gives what this one was given, or what it raised."""
    root = root / str(group.size)
    found: dict[str, Any] = {}
    for name, seen in {
        "uneven": ["abcdefg"] * 3,
        "one": ["a"] * 3,
        "none": [""] * 3,
        "different": ["abcde", "Aabcde", "xyz"],
    }.items():
        session = session_of(root / name, seen[group.rank])
        found[name] = work(session, group)
        session.close()
        missing = {job.id for job in lacking(session.jobs, ("video",), session.out)} if group.is_first else set()
        found[f"statuses of {name}"] = final_statuses(session.jobs, session.statuses, missing)
    again = session_of(root / "uneven", "abcdefgh")
    found["again"] = work(again, group)
    again.close()
    if group.size > 1:
        found |= fail(group, root)
    stopped = session_of(root / "stopped", "abcdefg")
    found["stopped"] = work(stopped, group)
    stopped.abort()  # as where the encoder fails: the next run, of one process, goes on
    return found


def fail(group: Group, root: Path) -> dict[str, Any]:
    """What this process raises where one cannot go on, and whether the store is free afterwards."""
    last = group.rank == group.size - 1

    def attempt(session: ExtractionSession) -> Any:
        result = outcome(lambda: work(session, group))
        session.abort()
        return result

    found = {
        "made differently": attempt(session_of(root / "uneven", "abc", "y")),
        "other encoder": attempt(session_of(root / "fresh", "abc", "y" if last else "x")),
    }
    holder = StoreWriter(root / "held" / PARTS / f"{group.rank:05d}", {"encoder": "x"}, "float32") if last else None
    found["held"] = attempt(session_of(root / "held", "abc"))
    if holder is not None:
        holder.close()
    session = session_of(root / "fresh", "abc")
    found["free"] = work(session, group)
    session.close()
    return found
