"""Every way in which a store can be broken ends with a DataError that names the file and what to do."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from muvr_train.errors import DataError
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter

SHARD = "video-00000.safetensors"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with StoreWriter(tmp_path / "s", make_manifest("e")) as writer:
        for n in range(4):
            writer.add(str(n), np.full((1 + n, 2, 3), n, "f4"))
    return tmp_path / "s"


def cut(size: int) -> Callable[[Path], None]:
    return lambda path: (path / SHARD).write_bytes((path / SHARD).read_bytes()[:size]) and None


def edit_header(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        data = (path / SHARD).read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + length])
        change(header)
        text = json.dumps(header).encode()
        (path / SHARD).write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length :])

    return apply


def edit_index(change: Callable[[dict], object]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        index = json.loads((path / "index.json").read_text())
        change(index)
        (path / "index.json").write_text(json.dumps(index))

    return apply


def entry(index: dict) -> dict:
    return index["streams"]["video"]["shards"][0]


def overwrite_offsets(path: Path) -> None:
    data = bytearray((path / SHARD).read_bytes())
    start = 8 + struct.unpack("<Q", data[:8])[0]
    data[start + 8 : start + 16] = struct.pack("<q", 99)
    (path / SHARD).write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut(-5), rf"{SHARD} is truncated: \d+ bytes instead of \d+.*build it again"),
        (cut(200), rf"{SHARD} is truncated"),
        (cut(50), rf"{SHARD} is truncated inside its header.*build it again"),
        (cut(3), rf"{SHARD} is truncated inside its header"),
        (cut(0), rf"{SHARD} is truncated inside its header"),
        (lambda path: (path / SHARD).unlink(), rf"{SHARD} is missing.*4 entries.*build it again"),
        (lambda path: (path / SHARD).write_bytes(bytes(500)), rf"{SHARD} is not a safetensors file"),
        (lambda path: (path / SHARD).write_bytes((path / SHARD).read_bytes() + b"x"), "longer than its header"),
        (edit_header(lambda header: header.pop("tokens")), "no usable tensor 'tokens'"),
        (edit_header(lambda header: header["tokens"].update(shape=[10, 2, 4])), "no usable tensor 'tokens'"),
        (edit_header(lambda header: header["tokens"].update(shape=[-10, -2, 3])), "no usable tensor 'tokens'"),
        (edit_header(lambda header: header["tokens"].update(dtype="F64")), "no usable tensor|types F64"),
        (edit_header(lambda header: header["offsets"].update(data_offsets=[8, 40])), "no usable tensor 'offsets'"),
        (overwrite_offsets, "offsets that do not fit"),
        (lambda path: (path / "manifest.json").unlink(), r"manifest.json is missing.*no feature store"),
        (lambda path: (path / "manifest.json").write_text("[]"), r"manifest.json.*JSON object, got list"),
        (lambda path: (path / "index.json").unlink(), r"is empty.*again"),
        (lambda path: (path / "index.json").write_text('{"format": 1, "str'), r"index.json.*cannot be read"),
        (edit_index(lambda index: index.update(format=7)), "format 7"),
        (edit_index(lambda index: index.pop("streams")), r"index.json is damaged"),
        (edit_index(lambda index: entry(index)["ids"].append("4")), rf"lists 5 entries in .*{SHARD}, which holds 4"),
        (edit_index(lambda index: entry(index)["ids"].__setitem__(3, "0")), "twice"),
        (edit_index(lambda index: entry(index).update(file="../../x.safetensors")), r"'../../x.safetensors'"),
        (edit_index(lambda index: entry(index).update(file="video-00007.safetensors")), "video-00007.* is missing"),
        (
            edit_index(lambda index: index["streams"]["video"].update(shape=[2, 5])),
            r"index says \(2, 5\)",
        ),
    ],
)
def test_a_broken_store_is_refused(path: Path, damage: Callable[[Path], None], message: str) -> None:
    assert FeatureStore(path).length("3") == 4
    damage(path)
    with pytest.raises(DataError, match=message):
        FeatureStore(path)
    if "index.json" not in message and "empty" not in message:
        with pytest.raises(DataError):  # nor is it continued
            StoreWriter(path, make_manifest("e"))


def test_no_store_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no feature store at .*nowhere: no such folder"):
        FeatureStore(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"manifest.json is missing"):
        FeatureStore(tmp_path)
