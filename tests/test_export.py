"""Exported models: the same scores as their checkpoints, nothing overwritten unasked, damaged files refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from muvr_train import cli, export
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.open import open_features
from muvr_train.features.store import FeatureStore
from muvr_train.preflight.compose import Composer
from muvr_train.preflight.teacher import teacher_file
from muvr_train.runner.evaluate_run import trained_queries
from muvr_train.runner.models import build_retriever, fit_model, load_checkpoint
from muvr_train.types import StoreDims
from tests.toy import make_toy

S2VS = {"_target_": "muvr_train.models.s2vs.S2VS", "whiten": True, "residual": True, "weights": None}
WEIGHTED = {"_target_": "muvr_train.models.fusion.weighted.WeightedFusion"}
LATE = {"_target_": "muvr_train.models.late_interaction.LateInteraction", "temporal_layers": 1, "temporal_width": 8}
COARSE = {"_target_": "muvr_train.models.dns_coarse.DnSCoarse", "width": 8, "clusters": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    folder = tmp_path_factory.mktemp("toy")
    return open_features(make_toy(folder)[1], folder / "cache")


def checkpoint(folder: Path, store: FeatureStore, model: dict[str, Any], **recipe: Any) -> Path:
    """A file as Lightning writes it, of a model with moved weights."""
    torch.manual_seed(0)
    retriever = build_retriever(model, WEIGHTED, store.dims)
    fit_model(retriever, store, store.ids()[:20])
    with torch.no_grad():
        for parameter in retriever.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    recipe = {
        "model": model,
        "fusion": WEIGHTED,
        "dims": asdict(store.dims),
        "encoder": store.manifest.get("encoder"),
        "data": {"kind": "muvr", "regime": "supervised", "size": None},
        "benchmark": {"name": "muvr_base"},
        "seed": 0,
        "trained_queries": ["news/ä", "news/b"],
        **recipe,
    }
    folder.mkdir(parents=True)
    content = {
        "state_dict": {f"retriever.{k}": v for k, v in retriever.state_dict().items()} | {"loss.x": torch.zeros(1)},
        "muvr_train": recipe,
        "global_step": 7,
        "epoch": 1,
    }
    torch.save(content, folder / "best.ckpt")
    return folder / "best.ckpt"


def run(*arguments: str) -> int:
    """The program's exit code."""
    try:
        export.main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.mark.parametrize("model", [S2VS, LATE, COARSE], ids=["s2vs", "late_interaction", "dns_coarse"])
def test_an_exported_model_scores_as_its_checkpoint_bit_for_bit(tmp_path, store, model, capsys):
    path, out = checkpoint(tmp_path / "run", store, model), tmp_path / "a [model], ü=1"
    assert run(f"ckpt_path={path}", f"out={out}") == 0
    assert capsys.readouterr().out == f"{out / 'model.safetensors'}\n"
    assert sorted(file.name for file in out.iterdir()) == ["config.json", "model.safetensors"]
    first = load_checkpoint(path, store)
    for name in (out, out / "model.safetensors"):
        again = load_checkpoint(name, store)
        assert again.recipe == first.recipe
        tokens = store.tokens(store.ids()[:6])
        with torch.no_grad():
            scores = [
                m.network.similarity(m.network.index(tokens), m.network.index(tokens)) for m in _models(first, again)
            ]
        assert torch.equal(*scores)
        for key, value in first.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[key], value), key
    content = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert content["training"] == {"checkpoint": "best.ckpt", "step": 7, "epoch": 1}
    assert content["recipe"]["trained_queries"] == ["news/ä", "news/b"]


def _models(*loaded):
    return [one.model for one in loaded]


def test_an_export_of_an_export_is_the_same(tmp_path, store):
    path = checkpoint(tmp_path / "run", store, S2VS)
    (path.parent / "training.json").write_text('{"best_step": 5, "monitor": "m", "best": 0.5}')
    (path.parent / "calibration.safetensors").write_bytes(b"state")
    for source, out in ((path, tmp_path / "one"), (tmp_path / "one", tmp_path / "two")):
        assert run(f"ckpt_path={source}", f"out={out}") == 0
    for name in ("model.safetensors", "config.json", "calibration.safetensors"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert json.loads((tmp_path / "two" / "config.json").read_text())["training"]["best_step"] == 5


def test_nothing_is_overwritten_unasked(tmp_path, store, capsys):
    path, out = checkpoint(tmp_path / "run", store, COARSE), tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    assert run(f"ckpt_path={path}", f"out={out}") == 2
    assert "not empty" in capsys.readouterr().err
    assert [file.name for file in out.iterdir()] == ["notes.txt"]
    assert run(f"ckpt_path={path}", f"out={out}", "overwrite=true") == 0
    assert (out / "notes.txt").read_text() == "mine"
    modes = {(out / name).stat().st_mode for name in ("model.safetensors", "config.json", "notes.txt")}
    assert len(modes) == 1  # the umask's
    assert run(f"ckpt_path={path.parent}", f"out={tmp_path / 'of the folder'}") == 0
    assert run(f"ckpt_path={path}", f"out={out / 'notes.txt'}", "overwrite=true") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "ckpt_path must be given"),
        (["ckpt_path={path}"], "out must be given"),
        (
            ["ckpt_path={path}", "output=x"],
            "output=x: settings are ckpt_path=..., out=..., overwrite=...; did you mean",
        ),
        (["ckpt_path={path}", "out=x", "out=y"], "out= is given twice"),
        (["ckpt_path={path}", "out=x", "overwrite=yes"], "overwrite=yes: must be true or false"),
        (["ckpt_path=none.ckpt", "out=x"], "none.ckpt: there is no such file"),
        (["ckpt_path={path.parent.parent}", "out=x"], "holds no best.ckpt and no model.safetensors; try .*best.ckpt"),
        (["ckpt_path={path}", "out={path.parent}"], "the folder is not empty"),
        (["{path}", "out=x"], "settings are"),
    ],
)
def test_mistakes_in_arguments(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "run" / "best.ckpt"
    path.parent.mkdir()
    path.touch()
    assert run(*(text.format(path=path) for text in arguments)) == 2
    error = capsys.readouterr().err
    assert re.search(message, error), error


def _cut(out: Path) -> None:
    data = (out / "model.safetensors").read_bytes()
    (out / "model.safetensors").write_bytes(data[: len(data) // 2])


def _flip(out: Path) -> None:
    data = bytearray((out / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (out / "model.safetensors").write_bytes(data)


def _other_weights(out: Path) -> None:
    save_file({"x": torch.zeros(1)}, out / "model.safetensors")


def _edit(out: Path, **changes: Any) -> None:
    content = json.loads((out / "config.json").read_text())
    (out / "config.json").write_text(json.dumps({**content, **changes}))


DAMAGE = {
    "half a file": (_cut, "damaged"),
    "one bit": (_flip, "damaged"),
    "weights of another model": (_other_weights, "not the file that config.json"),
    "no config": (lambda out: (out / "config.json").unlink(), "config.json is missing beside it"),
    "no JSON": (lambda out: (out / "config.json").write_text("{"), "describes no model"),
    "a list": (lambda out: (out / "config.json").write_text("[]"), "describes no model"),
    "another program's": (
        lambda out: (out / "config.json").write_text('{"architectures": ["Bert"]}'),
        "no model of muvr",
    ),
    "a later format": (lambda out: _edit(out, format_version=2), "version 2 cannot be read"),
    "no recipe": (lambda out: _edit(out, recipe={}), "its recipe lacks model, fusion"),
}


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, store: FeatureStore) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export.main([f"ckpt_path={checkpoint(folder / 'run', store, COARSE)}", f"out={folder / 'out'}"])
    return folder / "out"


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_and_foreign_files_are_refused(tmp_path, store, exported, name):
    out = shutil.copytree(exported, tmp_path / "out")
    damage, message = DAMAGE[name]
    damage(out)
    with pytest.raises(DataError, match=message):
        load_checkpoint(out, store)
    assert run(f"ckpt_path={out}", f"out={tmp_path / 'again'}") == 1


def test_code_in_a_file_is_not_run(tmp_path, store, exported):
    out = shutil.copytree(exported, tmp_path / "out")
    recipe = json.loads((out / "config.json").read_text())["recipe"]
    for model, message in (
        ({"_target_": "os.system"}, "no SimilarityNetwork"),
        ({**recipe["model"], "x": {"_target_": "os.system"}}, "name further classes"),
        ({"_target_": "no.Such"}, "cannot be imported"),
    ):
        _edit(out, recipe={**recipe, "model": model})
        with pytest.raises(DataError, match=message):
            load_checkpoint(out, store)
    (tmp_path / "foreign.ckpt").write_bytes(b"no checkpoint")
    assert run(f"ckpt_path={tmp_path / 'foreign.ckpt'}", f"out={tmp_path / 'x'}") == 1
    assert not (tmp_path / "x").exists()


def test_evaluation_takes_the_folder_and_the_settings_of_the_run(tmp_path, store, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = checkpoint(tmp_path / "run", store, COARSE)
    (tmp_path / "run" / ".hydra").mkdir()
    choices = "hydra:\n  runtime:\n    choices: {data: demo, encoder: demo, benchmark: muvr_base, model: s2vs}\n"
    (tmp_path / "run" / ".hydra" / "hydra.yaml").write_text(choices)
    saved = "data: {size: tiny, seed: 3, batch: {topics: 9}}\nmodel: {whiten: true}\nbenchmark: {folds: 5, fold: 2}\n"
    (tmp_path / "run" / ".hydra" / "config.yaml").write_text(saved)
    assert run(f"ckpt_path={path}", "out=model") == 0
    texts = cli.prepare(["ckpt_path=model"], "evaluate")
    kept = cli.prepare([f"ckpt_path={path}"], "evaluate")
    assert "ckpt_path='model/model.safetensors'" in texts
    assert {text for text in texts if not text.startswith(("ckpt_path", "out"))} == {
        text for text in kept if not text.startswith(("ckpt_path", "out"))
    }
    assert "++benchmark.fold=2" in texts
    cfg = Composer(cli.config_dir(), "evaluate", None).compose([text for text in texts if "=" in text])
    assert cfg.ckpt_path == "model/model.safetensors"
    assert cfg.out.startswith("outputs/model-")
    assert teacher_file("model") == Path("model/model.safetensors")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="this folder holds no best"):
        cli.prepare([f"ckpt_path={empty}"], "evaluate")


def test_held_out_guards_know_the_training_queries(exported, store):
    loaded = load_checkpoint(exported, store)
    cfg = Composer(cli.config_dir(), "evaluate", None).compose(["data=muvr", "data.annotations=x"])
    assert trained_queries(cfg, loaded.recipe, None) == {"news/ä", "news/b"}
    assert len(loaded.digest) == 64


def test_weights_that_are_shared_or_in_another_order_of_memory(tmp_path, store, exported):
    weights = load_file(exported / "model.safetensors")
    assert all(value.is_contiguous() for value in weights.values())
    assert StoreDims(**json.loads((exported / "config.json").read_text())["recipe"]["dims"]) == store.dims
