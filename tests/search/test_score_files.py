"""Reading and writing score files: what comes back, and one clear message for everything that is wrong."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.search.score_files import ScoreBlock, read_scores, write_scores

SCORES = np.arange(6, dtype=np.float32).reshape(2, 3)
GOOD: dict[str, Any] = {"query_ids": ["a", "ü/b"], "database_ids": ["x", "y", "z"], "scores": SCORES}


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_the_plain_form(tmp_path: Path) -> None:
    file = read_scores(save(tmp_path / "a.npz", **GOOD))
    assert file.mode == "scores"
    assert list(file.blocks) == [""]
    block = file.blocks[""]
    assert block.queries == ("a", "ü/b")
    assert block.database == ("x", "y", "z")
    assert block.expressions is None
    assert block.scores.dtype == np.float32
    np.testing.assert_array_equal(block.scores, SCORES)


def test_the_name_of_the_file_does_not_matter(tmp_path: Path) -> None:
    path = save(tmp_path / "a.npz", **GOOD).rename(tmp_path / "scores")
    assert read_scores(path).blocks[""].queries == ("a", "ü/b")


def test_bytes_and_numbers_are_ids_too(tmp_path: Path) -> None:
    given = {"query_ids": np.array(["a", "ü"], dtype=str).astype("U"), "database_ids": np.array([1, 20, 3])}
    given["query_ids"] = np.array([b"a", "ü".encode()])
    block = read_scores(save(tmp_path / "a.npz", **given, scores=SCORES)).blocks[""]
    assert (block.queries, block.database) == (("a", "ü"), ("1", "20", "3"))


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", ">f8", "i8", "u1", "longdouble"])
def test_real_numbers_are_scores(tmp_path: Path, dtype: str) -> None:
    block = read_scores(save(tmp_path / "a.npz", **{**GOOD, "scores": SCORES.astype(dtype)})).blocks[""]
    assert block.scores.dtype == (np.float32 if dtype.endswith("f4") else np.float64)
    assert block.scores.dtype.isnative
    np.testing.assert_array_equal(block.scores, SCORES)


def test_half_precision_is_read_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    block = read_scores(save(tmp_path / "a.npz", **{**GOOD, "scores": SCORES.astype(np.float16)})).blocks[""]
    assert block.scores.dtype == np.float32
    assert "float16" in caplog.text
    assert "tie" in caplog.text


def test_unknown_arrays_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    read_scores(save(tmp_path / "a.npz", **GOOD, expresions=np.array(["+a", "-b"])))
    assert "expresions" in caplog.text


@pytest.mark.parametrize("names", [("",), ("news", "dance"), ("", "news")])
def test_what_is_written_is_read(tmp_path: Path, names: tuple[str, ...]) -> None:
    blocks = {name: ScoreBlock(("a", "b"), ("x", f"{name}y", "日"), SCORES + place) for place, name in enumerate(names)}
    blocks["tags"] = ScoreBlock(("a", "a"), ("x", "y", "z"), SCORES.astype(np.float64), ("+p q", "AND +p -q"))
    write_scores(tmp_path / "a.npz", "tag_0.3", blocks)
    file = read_scores(tmp_path / "a.npz")
    assert file.mode == "tag_0.3"
    assert list(file.blocks) == [*names, "tags"]
    for name, block in blocks.items():
        back = file.blocks[name]
        assert (back.queries, back.database, back.expressions) == (block.queries, block.database, block.expressions)
        assert back.scores.dtype == block.scores.dtype
        np.testing.assert_array_equal(back.scores, block.scores)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    (without("scores"), ["scores is missing", "query_ids, database_ids"]),
    (without("query_ids"), ["query_ids is missing"]),
    ({"sims": SCORES}, ["sims", "query_ids, database_ids, scores"]),
    ({}, ["nothing", "query_ids"]),
    ({**GOOD, "scores/news": SCORES}, ["query_ids/news, database_ids/news is missing"]),
    ({**GOOD, "scores": SCORES.T}, ["[3, 2]", "2 query_ids", "3 database_ids", "scores.T"]),
    ({**GOOD, "scores": SCORES[:, :2]}, ["[2, 2]", "a column for each video"]),
    ({**GOOD, "scores": SCORES[None]}, ["[1, 2, 3]"]),
    ({**GOOD, "scores": SCORES.astype(str)}, ["scores must be float32", "<U"]),
    ({**GOOD, "scores": SCORES > 1}, ["scores must be float32", "bool"]),
    ({**GOOD, "scores": SCORES.astype(complex)}, ["complex128"]),
    ({**GOOD, "scores": SCORES.astype(object)}, ["scores holds Python objects", "never unpickled"]),
    ({**GOOD, "query_ids": np.array(["a", "b"], dtype=object)}, ["query_ids holds Python objects", "dtype=str"]),
    ({**GOOD, "query_ids": ["a", "a"]}, ["1 query_ids stand twice: a"]),
    ({**GOOD, "database_ids": ["x", "y", "y"]}, ["1 database_ids stand twice: y"]),
    ({**GOOD, "database_ids": ["x", "", "y"]}, ["database_ids: entry 1 is empty"]),
    ({**GOOD, "database_ids": [[1, 2, 3]]}, ["database_ids must be texts in one dimension", "[1, 3]"]),
    ({**GOOD, "database_ids": [0.5, 1, 2]}, ["database_ids must be texts", "float64"]),
    ({**GOOD, "query_ids": np.array([b"\xff", b"b"])}, ["query_ids", "UTF-8"]),
    ({**GOOD, "query_ids": np.empty(0, str), "scores": np.empty((0, 3))}, ["no query id"]),
    ({**GOOD, "database_ids": np.empty(0, str), "scores": np.empty((2, 0))}, ["no database id"]),
    ({**GOOD, "mode": ["v", "t"]}, ["mode must be one text"]),
    ({**GOOD, "mode": "a/b"}, ["mode must be one text without '/'"]),
    ({**GOOD, "mode": " "}, ["mode must be one text"]),
    ({**GOOD, "expressions": ["+a"]}, ["1 expressions for 2 rows"]),
    ({**GOOD, "query_ids": ["a", "a"], "expressions": ["+p", "+p"]}, ["stand twice: a with +p"]),
    ({f"{name}/news": value for name, value in {**GOOD, "scores": SCORES.T}.items()}, ["block news", "[3, 2]"]),
]


@pytest.mark.parametrize(("arrays", "says"), WRONG)
def test_wrong_arrays(tmp_path: Path, arrays: dict[str, Any], says: list[str]) -> None:
    path = save(tmp_path / "bad.npz", **arrays)
    with pytest.raises(DataError) as caught:
        read_scores(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    for text in says:
        assert text in message


def archive() -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **GOOD)
    return buffer.getvalue()


def damaged() -> bytes:
    content = bytearray(archive())
    at = content.index(SCORES.tobytes())
    content[at + 5] ^= 0xFF
    return bytes(content)


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, SCORES)
    return buffer.getvalue()


FILES: list[tuple[Callable[[], bytes], str]] = [
    (lambda: b"", "empty"),
    (lambda: b"query,video,score\n", "no score file"),
    (lambda: archive()[:-30], "cut short"),
    (lambda: archive()[:40], "cut short"),
    (damaged, "damaged"),
    (npy, "single array without ids"),
    (lambda: pickle.dumps(GOOD), "pickle, which is never read"),
    (lambda: b"PAR1" + bytes(50), "damaged"),
]


@pytest.mark.parametrize(("content", "says"), FILES)
def test_files_that_are_none(tmp_path: Path, content: Callable[[], bytes], says: str) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(content())
    with pytest.raises(DataError, match=says) as caught:
        read_scores(path)
    assert str(path) in str(caught.value)


def test_no_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nope.npz", tmp_path):
        with pytest.raises(DataError, match="no such score file"):
            read_scores(path)


def test_a_pickle_inside_is_never_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "sprung",)

    save(tmp_path / "bad.npz", **{**GOOD, "query_ids": np.array([Trap(), Trap()], dtype=object)})
    with pytest.raises(DataError, match="never unpickled"):
        read_scores(tmp_path / "bad.npz")
    assert not (tmp_path / "sprung").exists()
