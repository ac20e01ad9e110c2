"""status.csv: written and read back, whatever the names; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train.errors import DataError
from muvr_train.features.status import STATUSES, VideoStatus, count_statuses, read_statuses, write_statuses


def test_round_trip(tmp_path: Path) -> None:
    rows = [
        VideoStatus("ü 猫, x", 'a "b".mp4', "truncated", "cut off;\nsecond line", 100, 60, 15, "pyav"),
        VideoStatus("-dash", "-dash.mp4", "ok", "", 0, 7, 7, "decord"),
        VideoStatus("gone", "gone.mp4", "timeout", "was silent"),
    ]
    write_statuses(tmp_path, rows)
    assert read_statuses(tmp_path) == {row.id: row for row in rows}
    assert (tmp_path / "status.csv").read_text(encoding="utf-8").splitlines()[:2] == [
        "id,path,status,reason,declared,found,used,backend",
        "-dash,-dash.mp4,ok,,0,7,7,decord",
    ]
    assert [row.failed for row in rows] == [False, False, True]
    assert count_statuses(rows) == {"ok": 1, "truncated": 1, "timeout": 1}
    assert list(count_statuses(rows)) == [name for name in STATUSES if name in ("ok", "truncated", "timeout")]


def test_a_carriage_return_in_a_name(tmp_path: Path) -> None:
    rows = [
        VideoStatus("a\rb", "a\rb.mp4", "ok"),
        VideoStatus("c", "c.mp4", "short", "few", 2, 2, 2, "pyav"),
    ]
    write_statuses(tmp_path, rows)
    assert read_statuses(tmp_path) == {row.id: row for row in rows}


def test_none(tmp_path: Path) -> None:
    assert read_statuses(tmp_path) == {}
    write_statuses(tmp_path, [])
    assert read_statuses(tmp_path) == {}


@pytest.mark.parametrize(
    "text", ["id,path\na,b\n", "id,path,status,reason,declared,found,used,backend\na,b,fine,,1,1,1,x\n"]
)
def test_damage(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.csv").write_text(text)
    with pytest.raises(DataError, match=r"status\.csv is damaged"):
        read_statuses(tmp_path)
