"""Pickled annotations of strangers: nothing that is in them is run, and every reader refuses what is not plain."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train.benchmarks.cc_web_video import read_cc_web_video
from muvr_train.benchmarks.evve import read_evve
from muvr_train.benchmarks.fivr import read_fivr
from muvr_train.benchmarks.types import Benchmark
from muvr_train.errors import DataError
from tests.benchmarks.test_cc_web_video import CONTENT as CC_WEB_VIDEO
from tests.benchmarks.test_evve import CONTENT as EVVE
from tests.benchmarks.test_fivr import CONTENT as FIVR

Reader = Callable[[Path], Benchmark]
READERS: list[tuple[str, Reader, dict[str, Any]]] = [
    ("fivr_audio.pickle", lambda path: read_fivr(path, "5k"), FIVR),
    ("evve.pickle", read_evve, EVVE),
    ("cc_web_video.pickle", read_cc_web_video, CC_WEB_VIDEO),
]
readers = pytest.mark.parametrize(("name", "read", "content"), READERS, ids=[name for name, _, _ in READERS])


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def nested_names(victim: Path) -> bytes:
    """A GLOBAL whose result is called with the result of another: `getattr(os, 'system')(...)`, protocol 0."""
    return f"(dVextra\nc__builtin__\ngetattr\n(c__builtin__\n__import__\n(Vos\ntRVmkdir\ntR(V{victim}\ntRs.".encode()


def stack_names(victim: Path) -> bytes:
    """STACK_GLOBAL with names that are put together on the stack, protocol 4."""
    name = str(victim).encode()
    text = b"X" + len(name).to_bytes(4, "little") + name
    return b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93" + text + b"\x85R."


@readers
@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_call_inside_the_annotation_is_refused_and_nothing_runs(
    tmp_path: Path, name: str, read: Reader, content: dict[str, Any], protocol: int
) -> None:
    victim = tmp_path / "victim"
    hidden = [Call(os.system, f"mkdir {victim}"), Call(eval, f"__import__('os').mkdir({str(victim)!r})")]
    for call in hidden:
        for bad in ({**content, "extra": call}, {**content, next(iter(content)): {"deep": [{"er": (call,)}]}}):
            (tmp_path / name).write_bytes(pickle.dumps(bad, protocol=protocol))
            with pytest.raises(DataError, match=rf"{name} is refused: it holds the name .*(system|eval)"):
                read(tmp_path)
    assert not victim.exists()


@readers
@pytest.mark.parametrize("trick", [nested_names, stack_names])
def test_names_that_are_reached_by_detours_are_refused(
    tmp_path: Path, name: str, read: Reader, content: dict[str, Any], trick: Callable[[Path], bytes]
) -> None:
    del content
    victim = tmp_path / "victim"
    data = trick(victim)
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=rf"{name} is refused: it holds the name"):
        read(tmp_path)
    assert not victim.exists()
    if trick is stack_names:  # the trick works on the standard library's reader
        pickle.loads(data)
        assert victim.exists()


@readers
def test_arrays_of_objects_and_other_plain_things_are_refused(
    tmp_path: Path, name: str, read: Reader, content: dict[str, Any]
) -> None:
    first = next(iter(content))
    for odd in (np.array([{"a": 1}], dtype=object), np.array(["a"]), 3, None, "text", [1, 2], {"x": {}}):
        (tmp_path / name).write_bytes(pickle.dumps({**content, first: odd}))
        with pytest.raises(DataError, match=name):
            read(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(content)[:-20])
    with pytest.raises(DataError, match=rf"{name} is not a readable pickle"):
        read(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(content))
    assert read(tmp_path).partitions
