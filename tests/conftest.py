"""Fixtures that every room's tests use."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

if "PYTEST_XDIST_WORKER" in os.environ:  # one of several processes of tests: they share the cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")

settings.register_profile("shared-machine", deadline=None)  # no test fails because the machine is busy
settings.load_profile("shared-machine")
SHARED = Path(__file__).parents[1].parent / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the most slow tests come first, so that no process is left alone with one of them at the end."""
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of golden numbers and real data beside the checkout."""
    if not SHARED.is_dir():
        pytest.skip("needs the folder ../shared beside the checkout (golden numbers and real data)")
    return SHARED


@pytest.fixture(autouse=True)
def same_scheduling() -> Iterator[None]:
    """Tests leave the scheduling of this process as it was.

    The AV1 encoder of the tests gives a superuser's thread that calls it real-time priority. Whatever the thread starts
    from then on inherits that, and programs that poll for each other starve those they wait for.
    """
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    yield
    if os.sched_getscheduler(0) != before[0]:
        os.sched_setscheduler(0, *before)
