"""Tiny multimodal models, made and loaded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from muvr_train.rerank.answerers.hf import Transformers
    from tests.rerank.hf_requests import TinyAnswerers, TinyModels


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
