"""Tiny multimodal models, made and loaded once; small question files and an answerer of a user's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from muvr_train.benchmarks.muvr_qa import QaRow, write_qa
from tests.rerank.question_runs import OWN

if TYPE_CHECKING:
    from muvr_train.rerank.answerers.hf import Transformers
    from tests.rerank.hf_requests import TinyAnswerers, TinyModels
    from tests.rerank.reranked import Workplace


@pytest.fixture(scope="session")
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Folders of models of a family, see `tiny_mllm`."""
    from tests.rerank.tiny_mllm import build

    folder = tmp_path_factory.mktemp("models")
    return lambda family: path if (path := folder / family).exists() else build(family, path)


@pytest.fixture(scope="session")
def tiny_answerers(tiny_models: TinyModels) -> TinyAnswerers:
    """Answerers that ask them, by family and settings."""
    from tests.rerank.hf_requests import prepared

    known: dict[str, Transformers] = {}

    def get(family: str, **settings: Any) -> Transformers:
        key = f"{family} {settings}"
        if key not in known:
            known[key] = prepared(tiny_models(family), **settings)
        return known[key]

    return get


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    """Twelve pairs of two partitions; ids and texts outside ASCII."""
    folder = tmp_path / "问题 [1]=x"
    folder.mkdir()
    for partition in ("news", "dance"):
        rows = [
            QaRow(f"{partition}-q{n}", f"tö{n}-{label}", label, "找一个 ‘dance’", "+night" if n % 2 else "")
            for n in range(6)
            for label in (1, 0)
        ]
        write_qa(folder / f"{partition}.jsonl", rows)
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's answerer: one file with its class, one with its settings."""
    (tmp_path / "my_answerers.py").write_text(OWN, encoding="utf-8")
    folder = tmp_path / "my_configs" / "answerer"
    folder.mkdir(parents=True)
    settings = "concurrency: 1\nkill_at: null\nsignal: 9\nfailing: 0\nfault: false\nlog: asked.txt\n"
    (folder / "mine.yaml").write_text(f"_target_: my_answerers.Mine\n{settings}", encoding="utf-8")
    sys.modules.pop("my_answerers", None)
    return tmp_path / "my_configs"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    """A user's folder with toy data and a first evaluation of it, `raw`."""
    from tests.rerank.reranked import Workplace, prepared

    place = Workplace(tmp_path_factory.mktemp("reranking with spaces"))
    with pytest.MonkeyPatch.context() as patch:
        prepared(place, patch)
        place.evaluate(*place.model, "out=raw", "save_scores=true")
    return place


@pytest.fixture
def place(made: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    """The same as working directory, where nothing was asked yet."""
    from tests.rerank.reranked import prepared

    prepared(made, monkeypatch)
    (made.folder / "asked.txt").unlink(missing_ok=True)
    return made
