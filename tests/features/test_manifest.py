"""Keys that a store gains after its frames were made: only where everything else is equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from muvr_train.errors import DataError
from muvr_train.features.manifest import adopt_optional
from muvr_train.features.session import PARTS
from muvr_train.features.writer import StoreWriter
from tests.features.session_worker import session_of, work
from tests.features.test_session import whole

PLAIN = {"encoder": "x", "sampling": "uniform"}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with StoreWriter(tmp_path / "s", PLAIN, "float16") as writer:
        writer.add("a", torch.ones(1, 1, 2))
    return tmp_path / "s"


def stored(store: Path) -> dict[str, object]:
    return dict(json.loads((store / "manifest.json").read_text()))


def test_a_new_store(tmp_path: Path) -> None:
    assert adopt_optional(tmp_path / "none", {**PLAIN, "views": 1}) == {**PLAIN, "views": 1}
    assert not (tmp_path / "none").exists()


def test_a_store_gains_views_and_later_runs_know(store: Path) -> None:
    assert adopt_optional(store, {**PLAIN, "views": {"seed": 0}}) == {**PLAIN, "views": {"seed": 0}}
    assert stored(store)["views"] == {"seed": 0}
    assert adopt_optional(store, PLAIN) == {**PLAIN, "views": {"seed": 0}}
    with StoreWriter(store, adopt_optional(store, PLAIN), "float16"):
        pass
    with (
        pytest.raises(DataError, match="views"),
        StoreWriter(store, adopt_optional(store, {**PLAIN, "views": 2}), None),
    ):
        pass


def test_a_refused_run_changes_nothing(store: Path) -> None:
    before = stored(store)
    other = adopt_optional(store, {**PLAIN, "encoder": "y", "views": 1})
    with pytest.raises(DataError, match="encoder"):
        StoreWriter(store, other, "float16")
    assert stored(store) == before


def test_a_part_of_a_run_without_views_is_merged_into_a_store_that_has_them(tmp_path: Path) -> None:
    first, second = session_of(tmp_path / "s", "ab"), session_of(tmp_path / "part", "cd")
    work(first)
    work(second)
    second.close()
    first.abort()  # the run is killed before process 0 has merged what process 1 has made
    (tmp_path / "s" / PARTS).mkdir()
    (tmp_path / "part").rename(tmp_path / "s" / PARTS / "00001")
    later = session_of(tmp_path / "s", "abcd")
    later.manifest = adopt_optional(tmp_path / "s", {**later.manifest, "views": 1})
    assert later.open() == []
    later.close()
    whole(tmp_path / "s", "abcd")
