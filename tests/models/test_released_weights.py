"""model.weights: files of the S2VS program, read without running them; settings that disagree are named."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from muvr_train import cli
from muvr_train.config_checks import check_paths
from muvr_train.errors import ConfigError, DataError
from muvr_train.models.s2vs import S2VS
from muvr_train.preflight.compose import Composer
from muvr_train.runner.models import build_retriever, trial_model, without_weights
from muvr_train.types import StoreDims, Tokens
from tests.reference import s2vs_golden as golden

DIM = 8
KINDS: dict[str, dict[str, Any]] = {
    "attention": {},
    "plain": {"attention": False},
    "norm": {"attention_norm": True},
    "binary": {"attention": False, "binarization": 16},
    "batch_norm": {"batch_norm": True},
    "symmetric": {"symmetric": True},
}


def released(path: Path, dim: int = DIM, seed: int = 3, **options: Any) -> Path:
    """A file as the S2VS program writes it."""
    torch.manual_seed(seed)
    theirs = {}
    for name, value in S2VS(dim, 2, **options).state_dict().items():
        name = name.replace("binarization.projection", "binarization.W")
        theirs["visil_" + name if name.startswith("head.") else name] = value
    settings = {"dims": dim, "attention": options.get("attention", True), "symmetric": options.get("symmetric", False)}
    torch.save({"model": theirs, "args": Namespace(**settings, lambda_viv=(0.3, 0.7)), "global_step": 1}, path)
    return path


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("more", [{}, {"extra_maps": 1}, {"residual": True}], ids=["", "extra maps", "residual"])
def test_a_network_starts_with_the_weights_of_the_file(tmp_path, name, more):
    if name == "binary" and "residual" in more:
        pytest.skip("binarization excludes residual")
    path = released(tmp_path / "s2vs [ä]=1.pth", **KINDS[name])
    torch.manual_seed(3)
    expected = S2VS(DIM, 2, **KINDS[name]).eval()
    network = S2VS(DIM, 2, weights=str(path), **KINDS[name], **more).eval()
    if more.get("residual"):
        with torch.no_grad():
            network.residual_scale.fill_(1.0)
        network.base = None
    q, n = (Tokens.pack([torch.randn(length, 2, DIM) for length in lengths]) for lengths in ((5, 9), (4, 7, 1)))
    scores = network.similarity(network.index(q), network.index(n))
    torch.testing.assert_close(scores, expected.similarity(expected.index(q), expected.index(n)), atol=1e-6, rtol=0)


def test_golden_weights_by_this_way(shared, tmp_path):
    data = golden.load(shared, "att_r9")
    weights = {key[2:]: value for key, value in data.items() if key.startswith("w/")}
    torch.save({"model": weights, "args": Namespace(dims=64)}, tmp_path / "s2vs.pth")
    network = S2VS(64, 9, weights=str(tmp_path / "s2vs.pth")).eval()
    index = golden.reference_index(network, golden.raw_tokens(data))
    half = len(index) // 2
    scores = network.similarity(index[:half], index[half:])
    torch.testing.assert_close(scores, data["out/video_similarity"], atol=5e-6, rtol=0)


@pytest.mark.parametrize("file", KINDS)
@pytest.mark.parametrize("model", KINDS)
def test_settings_that_disagree_are_named_with_what_the_file_needs(tmp_path, file, model):
    if file == model:
        return
    path = released(tmp_path / "a.pth", **KINDS[file])
    with pytest.raises(ConfigError, match="was trained with other settings: it needs model") as caught:
        S2VS(DIM, 2, weights=str(path), **KINDS[model])
    defaults = {
        "attention": True,
        "attention_norm": False,
        "binarization": None,
        "batch_norm": False,
        "symmetric": False,
    }
    wanted, have = {**defaults, **KINDS[file]}, {**defaults, **KINDS[model]}
    for key, value in wanted.items():
        text = "null" if value is None else str(value).lower()
        assert (f"model.{key}={text}, not " in str(caught.value)) == (value != have[key]), key


def test_other_features_and_whitening(tmp_path):
    path = released(tmp_path / "a.pth", dim=12)
    with pytest.raises(DataError, match=r"features of 12 dimensions; those of the store have 8"):
        S2VS(DIM, 2, weights=str(path))
    with pytest.raises(ConfigError, match=r"model\.whiten=false, not true"):
        S2VS(12, 2, whiten=True, weights=str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"model": {"encoder.weight": torch.zeros(1)}, "args": {}}, "no weights of the S2VS program"),
        ({"model": {"visil_head.x": [1, 2]}, "args": {}}, "more than named tensors"),
        ({"model": {}, "args": None}, "no weights of the S2VS program"),
        ({"state_dict": {}}, "the key 'model'"),
        ([1], "the key 'model'"),
        ({"model": {"visil_head.conv1.weight": torch.zeros(32, 1, 3, 3)}}, "missing head.conv2"),
    ],
)
def test_foreign_files(tmp_path, content, message):
    torch.save(content, tmp_path / "a.pth")
    with pytest.raises(DataError, match=message):
        S2VS(DIM, 2, attention=False, weights=str(tmp_path / "a.pth"))
    (tmp_path / "a.pth").write_bytes(b"x")
    with pytest.raises(DataError, match="cannot be read"):
        S2VS(DIM, 2, weights=str(tmp_path / "a.pth"))


def composed(*texts: str, program: str = "evaluate") -> Any:
    return Composer(cli.config_dir(), program, None).compose(cli.prepare(["model=s2vs", *texts], program))


def test_from_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = released(tmp_path / "a=[b].pth")
    free = ("model.whiten=false", "model.residual=false")
    cfg = composed(f"model.weights={path}", *free)
    assert cfg.model.weights == str(path)
    dims = StoreDims(regions=2, dim=DIM)
    torch.manual_seed(3)
    expected = S2VS(DIM, 2).head.conv2.weight
    assert torch.equal(build_retriever(cfg.model, cfg.fusion, dims).network.head.conv2.weight, expected)
    assert trial_model(cfg).network.dim == 64  # made-up sizes, for which no file has weights
    assert without_weights(cfg.model)["weights"] is None
    with pytest.raises(ConfigError, match=r"set model\.whiten=false"):
        composed(f"model.weights={path}")
    with pytest.raises(ConfigError, match=r"set model\.residual=false"):
        composed(f"model.weights={path}", free[0])
    composed(f"model.weights={path}", free[0], program="train")
    absent = composed("model.weights=none.pth", *free)
    with pytest.raises(DataError, match=r"model\.weights=none\.pth: there is no such file"):
        check_paths(absent)
