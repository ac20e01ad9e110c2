"""The restricted unpickler: what numpy 1 and 2 write is read, everything else is refused and never run."""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.pickles import read_pickle

CONTENT = {
    "query_prompt": np.arange(6, dtype="f4").reshape(1, 6),
    "tags": {"+aerial": np.array([[1.5, -2]], "f2"), "é": np.asfortranarray(np.arange(6, dtype="f8").reshape(2, 3))},
    "plain": [1, 2.5, None, True, "text", b"\x00\xff", b"", ("a", [np.int64(3), np.float32(0.5)]), {1, 2}],
    "empty": np.zeros((0, 4), "f4"),
    "big_endian": np.array([1, 256], ">i2"),
    "flags": np.array([True, False]),
    "names": np.array(["a", "longer"]),
    "view": np.arange(10)[::3],
}


def equal(one: Any, two: Any) -> bool:
    if isinstance(two, np.ndarray):
        same_type = one.dtype == two.dtype.newbyteorder("=")
        return isinstance(one, np.ndarray) and same_type and one.shape == two.shape and bool((one == two).all())
    if isinstance(two, dict):
        return list(one) == list(two) and all(equal(one[key], two[key]) for key in two)
    if isinstance(two, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(equal, one, two))
    return type(one) is type(two) and bool(one == two)


def as_numpy_1(data: bytes) -> bytes:
    """Rename numpy's inner module as numpy 1 called it, with the lengths that protocols 4 and 5 write."""
    renamed = data
    for module in ("multiarray", "numeric"):
        new, old = f"numpy._core.{module}".encode(), f"numpy.core.{module}".encode()
        renamed = renamed.replace(bytes([len(new)]) + new, bytes([len(old)]) + old).replace(new, old)
    if data[2:3] == b"\x95":
        size = int.from_bytes(data[3:11], "little") - (len(data) - len(renamed))
        renamed = renamed[:3] + size.to_bytes(8, "little") + renamed[11:]
    return renamed


@pytest.mark.parametrize("numpy_1", [False, True])
@pytest.mark.parametrize("protocol", range(6))
def test_arrays_in_plain_containers_are_read(tmp_path: Path, protocol: int, numpy_1: bool) -> None:
    data = pickle.dumps(CONTENT, protocol=protocol)
    if numpy_1:
        data = as_numpy_1(data)
        assert b"numpy._core" not in data
        assert b"numpy.core" in data
    (tmp_path / "a.pkl").write_bytes(data)
    assert equal(read_pickle(tmp_path / "a.pkl"), CONTENT)


def test_arrays_that_are_shared_stay_equal_and_can_be_written(tmp_path: Path) -> None:
    array = np.ones(3)
    (tmp_path / "a.pkl").write_bytes(pickle.dumps([array, {"x": array}]))
    first, second = read_pickle(tmp_path / "a.pkl")
    first += 1
    assert first.tolist() == [2, 2, 2]
    assert second["x"].shape == (3,)


class Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, "(posix|nt).system"),
        (eval, "builtins.eval|__builtin__.eval"),
        (getattr, "getattr"),
        (np.load, "numpy.load|numpy.lib"),
        (np.fromfile, "fromfile"),
    ],
)
def test_a_malicious_pickle_is_refused_and_not_run(tmp_path: Path, protocol: int, function: Any, name: str) -> None:
    victim = tmp_path / "victim"
    argument = f"__import__('os').mkdir({str(victim)!r})" if function is eval else f"mkdir {victim}"
    content = {"query_prompt": np.ones((1, 2)), "tags": {"a": Call(function, argument)}}
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(content, protocol=protocol))
    with pytest.raises(DataError, match=rf"bad.pkl is refused.*({name})"):
        read_pickle(tmp_path / "bad.pkl")
    assert not victim.exists()


RECORDS = np.array([(1, "a")], dtype=[("x", "i4"), ("y", "O")])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([{"a": 1}], dtype=object), "type 'O8'|objects"),
        (RECORDS, "type 'V"),
        (np.dtype("f4"), "bare name"),
        (Call(bytes, 10**15), "call of bytes"),
        (np.ndarray, "bare name"),
        ({np.ndarray}, "bare name"),
        ({(1, np.ndarray): 1}, "bare name"),
        (frozenset([("a", np.dtype("f4"))]), "bare name"),
        (collections.Counter("aab"), "collections.Counter"),
        (np.datetime64("2024-01-01"), "type 'M8'"),
        (np.ones(2, "c8"), "type 'c8'"),
        (Call(np._core.multiarray.scalar, "f4", b"abcd"), "type is a str"),
        (Call(np._core.multiarray._reconstruct, np.ndarray, (0,), b"b"), "without content"),
    ],
)
def test_what_is_no_plain_array_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(content))
    with pytest.raises(DataError, match=rf"bad.pkl is refused.*({message})"):
        read_pickle(tmp_path / "bad.pkl")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def test_containers_that_never_end_are_refused_and_shared_ones_do_not_multiply(tmp_path: Path) -> None:
    for content in (nested(60), cycle()):
        (tmp_path / "deep.pkl").write_bytes(pickle.dumps(content))
        with pytest.raises(DataError, match="50 deep"):
            read_pickle(tmp_path / "deep.pkl")
    value: list[Any] = [np.ones(1)]
    for _ in range(40):
        value = [value, value]  # 2**40 paths, 40 lists
    (tmp_path / "wide.pkl").write_bytes(pickle.dumps(value))
    assert len(read_pickle(tmp_path / "wide.pkl")) == 2


@pytest.mark.parametrize("size", [0, 1, 30, -1])
def test_a_truncated_pickle_is_a_data_error(tmp_path: Path, size: int) -> None:
    (tmp_path / "cut.pkl").write_bytes(pickle.dumps(CONTENT)[:size])
    with pytest.raises(DataError, match=r"cut.pkl is not a readable pickle"):
        read_pickle(tmp_path / "cut.pkl")


def test_noise_is_a_data_error(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = bytearray(pickle.dumps(CONTENT, protocol=4))
    outcomes = set()
    for _ in range(300):
        damaged = bytearray(data)
        damaged[int(rng.integers(len(data)))] = int(rng.integers(256))
        (tmp_path / "noise.pkl").write_bytes(damaged)
        try:
            read_pickle(tmp_path / "noise.pkl")
            outcomes.add("read")
        except DataError:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def test_a_missing_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.pkl cannot be read"):
        read_pickle(tmp_path / "none.pkl")
