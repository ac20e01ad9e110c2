"""Texts beside frames: edited texts give another store, and the frames are not made again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from muvr_train.features import texts
from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.texts import store_with_texts, text_store
from muvr_train.features.writer import StoreWriter

MANIFEST = make_manifest("toy", text_encoder="lengths")


class Lengths:
    """Gives the number of letters and of words; remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode_texts(self, asked: Sequence[str]) -> np.ndarray:
        self.asked += asked
        return np.array([[len(text), len(text.split())] for text in asked], np.float32)


def make_base(path: Path, videos: str = "ab") -> Path:
    with StoreWriter(path, MANIFEST, "float16") as writer:
        for number, name in enumerate(videos):
            if name not in writer.done():
                writer.add(name, np.full((2, 1, 3), number, np.float32))
    return path


def vectors(store: Path) -> dict[str, list[float]]:
    opened = FeatureStore(store)
    return {name: opened.array(name, "text").ravel().tolist() for name in opened.ids("text")}


def test_edited_texts_are_encoded_again_and_frames_are_shared(tmp_path: Path) -> None:
    base, encoder = make_base(tmp_path / "base"), Lengths()
    first = store_with_texts(base, MANIFEST, {"q1": "a cat", "q2": "ü"}, encoder)
    assert vectors(first) == {"q1": [5, 2], "q2": [1, 1]}
    assert FeatureStore(first).array("b").tolist() == FeatureStore(base).array("b").tolist() == [[[1, 1, 1]]] * 2
    assert (first / "video-00000.safetensors").samefile(base / "video-00000.safetensors")
    assert FeatureStore(base).streams == ("video",)
    assert store_with_texts(base, MANIFEST, {"q2": "ü", "q1": "a cat"}, encoder) == first
    assert encoder.asked == ["a cat", "ü"]
    second = store_with_texts(base, MANIFEST, {"q1": "a cat", "q2": "a dog!"}, encoder)
    assert second != first
    assert vectors(second) == {"q1": [5, 2], "q2": [6, 2]}
    assert vectors(first)["q2"] == [1, 1]
    assert text_store(base, {"q1": "a cat", "q2": "a dog!"}) == second


def test_no_texts_no_other_store(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    assert store_with_texts(base, MANIFEST, {}, Lengths()) == base
    assert list(tmp_path.iterdir()) == [base]


def test_more_videos_give_another_store(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    first = store_with_texts(base, MANIFEST, {"q": "x"}, Lengths())
    second = store_with_texts(make_base(base, "abc"), MANIFEST, {"q": "x"}, Lengths())
    assert first != second
    assert FeatureStore(second).ids() == ["a", "b", "c"]
    assert FeatureStore(first).ids() == ["a", "b"]


def test_a_kill_before_the_texts_loses_nothing(tmp_path: Path) -> None:
    class Breaks(Lengths):
        def encode_texts(self, asked: Sequence[str]) -> np.ndarray:
            raise KeyboardInterrupt

    base = make_base(tmp_path / "base")
    with pytest.raises(KeyboardInterrupt):
        store_with_texts(base, MANIFEST, {"q": "two words"}, Breaks())
    assert vectors(store_with_texts(base, MANIFEST, {"q": "two words"}, Lengths())) == {"q": [9, 2]}


def test_a_kill_while_sharing_loses_nothing(tmp_path: Path) -> None:
    base = make_base(tmp_path / "base")
    out = text_store(base, {"q": "x"})
    out.mkdir()
    (out / "video-00000.safetensors").write_bytes(b"half")
    store_with_texts(base, MANIFEST, {"q": "x"}, Lengths())
    assert FeatureStore(out).array("b").tolist() == [[[1, 1, 1]]] * 2


def test_files_are_copied_where_they_cannot_be_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no links here")

    monkeypatch.setattr(texts.os, "link", refuse)
    base = make_base(tmp_path / "base")
    out = store_with_texts(base, MANIFEST, {"q": "x"}, Lengths())
    assert not (out / "video-00000.safetensors").samefile(base / "video-00000.safetensors")
    assert FeatureStore(out).array("b").tolist() == [[[1, 1, 1]]] * 2
