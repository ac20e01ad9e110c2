"""Calibration as a user meets it: fitted on training data alone, saved with a run, reported beside the raw row."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from omegaconf import DictConfig, OmegaConf

from muvr_train import cli
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.preflight.compose import Composer
from muvr_train.runner import train
from muvr_train.runner.calibrate import build_calibration, samples_of, training_sample
from muvr_train.runner.data import Data, open_data
from muvr_train.runner.evaluate_run import evaluate
from muvr_train.runner.models import build_retriever
from muvr_train.search.calibration.fitting import fit
from muvr_train.search.calibration.saving import FILE, read_facts
from tests.test_end_to_end import Workplace
from tests.toy import make_toy

STEPS = "calibration=[centring,pca_whitening,query_expansion,score_norm,z_fusion]"
ALL = ("calibration=[centring,query_expansion,score_norm,harris]",)
ROOT = Path(__file__).parents[1]


def config(folder: Path, *more: str) -> DictConfig:
    argv = ["model=frame_max", "data=muvr", f"data.annotations={folder}/annotations", STEPS, *more]
    return Composer(cli.config_dir(), "evaluate").compose([*argv, f"data.features={folder}/features"])


def fitted_state(cfg: DictConfig) -> tuple[dict[str, torch.Tensor], Data, dict[str, Any]]:
    data = open_data(cfg)
    calibration = build_calibration(cfg)
    assert calibration is not None
    video, text, facts = samples_of(cfg, data, "cpu")
    fit(calibration, build_retriever(cfg.model, cfg.fusion, data.store.dims), video, text, cfg.seed)
    return calibration.state(), data, facts


def rewrite(folder: Path, chosen: Callable[[str], bool]) -> int:
    """Replace frames and texts of the chosen ids by other numbers."""
    rng, changed = np.random.default_rng(9), 0
    for path in sorted((folder / "features").glob("*/*.npy")):
        if chosen(f"{path.parent.name}/{path.stem}"):
            np.save(path, rng.standard_normal(np.load(path).shape).astype(np.float32))
            pickled = path.with_name(f"{path.stem}_query_dict.pkl")
            if pickled.exists():
                import pickle

                text = rng.standard_normal((1, 16)).astype(np.float32)
                pickled.write_bytes(pickle.dumps({"query_prompt": text, "tags": {}}))
            changed += 1
    return changed


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    make_toy(tmp_path)
    return tmp_path


def test_nothing_is_learned_from_test_queries_and_their_matches(toy: Path) -> None:
    """Every frame and text of what is held out is replaced: the fitted state is the same to the bit."""
    before, data, facts = fitted_state(config(toy))
    train = set(data.train_videos)
    held = {video for part in ("val", "test") for video in data.part(part).video_ids} - train
    queries = {query.id for part in ("val", "test") for query in data.part(part).queries}
    matches = {video for row in data.part("test").judgements for video in row.positives}
    assert queries | matches <= held
    assert facts == {"source": "training split", "videos": len(train), "queries": 12, "texts": 12}
    assert {name.split("/")[0] for name in before} == {"", "centring", "pca_whitening", "z_fusion"}
    assert rewrite(toy, lambda name: name in held) == len(held) > 20
    after, again, _ = fitted_state(config(toy))
    assert not np.array_equal(again.store.array(min(held)), data.store.array(min(held)))
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]), name
    rewrite(toy, lambda name: name == min(train))
    other = fitted_state(config(toy))[0]
    assert not torch.equal(other["centring/video"], before["centring/video"])


def background(folder: Path, ids: list[str], dim: int = 16, texts: bool = False) -> Path:
    rng = np.random.default_rng(3)
    with StoreWriter(folder, {"encoder": "numbers"}, dtype="float32") as writer:
        for name in ids:
            writer.add(name, rng.standard_normal((2, 1, dim), dtype=np.float32))
            if texts:
                writer.add(name, rng.standard_normal((1, 1, dim), dtype=np.float32), stream="text")
    return folder


def test_a_background_takes_the_place_of_the_training_split(toy: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = read_muvr(toy / "annotations")
    held = benchmark.queries[0].id
    folder = background(toy / "other", [*(f"extra/{i}" for i in range(8)), held])
    state, _, facts = fitted_state(config(toy, f"calibration_background={folder}"))
    assert facts == {
        "source": str(folder),
        "videos": 8,
        "queries": 8,
        "texts": 12,
        "texts_from": "training split",
    }
    assert (
        "1 videos are queries of the benchmark or match one (by id, upload or features), and are left out"
        in caplog.text
    )
    frames = FeatureStore(folder).tokens([f"extra/{i}" for i in range(8)]).normalized().x
    torch.testing.assert_close(state["centring/video"], frames.mean(dim=(0, 1, 2)))
    rewrite(toy, bool)
    after = fitted_state(config(toy, f"calibration_background={folder}"))[0]
    assert torch.equal(after["centring/video"], state["centring/video"])
    assert not torch.equal(after["centring/text"], state["centring/text"]), "texts are those of the training split"


def test_a_background_holds_no_query_or_match_under_any_name(toy: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither another cut of an upload, nor the same name elsewhere, nor the same features under another name."""
    data = open_data(config(toy))
    query, match = data.benchmark.queries[0].id, min(data.benchmark.judgements[-1].positives)
    cut = f"{query}_00.01.00-00.02.00"
    bare = match.split("/")[1]
    folder = background(toy / "other", [*(f"extra/{i}" for i in range(8)), cut, f"elsewhere/{bare}"])
    with StoreWriter(folder, {"encoder": "numbers"}, dtype="float32") as writer:
        writer.add("renamed/1", data.store.array(match))
        writer.add("renamed/2", data.store.array("news/d0"))
    _, _, facts = fitted_state(config(toy, f"calibration_background={folder}"))
    assert facts["videos"] == 9, "a plain distractor may be looked at"
    assert "3 videos are queries of the benchmark or match one (by id, upload or features)" in caplog.text


@pytest.mark.parametrize("own", [True, False])
def test_a_background_of_searched_videos_is_called_transductive(
    toy: Path, own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The benchmark's own store, or the same features under other names: 10 distractors and 10 others a partition."""
    path = toy / "features"
    if not own:
        path, store = toy / "renamed", open_data(config(toy)).store
        with StoreWriter(path, {"encoder": "numbers"}, dtype="float32") as writer:
            for number, name in enumerate(store.ids()):
                writer.add(f"renamed/{number}", store.array(name))
    out = toy / "out"
    typed = (f"calibration_background={path}", f"out={out}", "benchmark.report=false", "benchmark.bootstrap=0")
    cfg = config(toy, *typed, "trainer=cpu", "calibration=[centring]", "benchmark.split=all")
    evaluate(OmegaConf.masked_copy(cfg, [name for name in cfg if name != "hydra"]))
    (row,) = content(out)["calibrated"]
    assert {name: row["fitted_on"][name] for name in ("videos", "gallery_videos_among_them", "transductive")} == {
        "videos": 40,
        "gallery_videos_among_them": 40,
        "transductive": True,
    }
    assert row["fitted_on"]["evaluated_queries_among_them"] == 12, "the texts of the training split"
    assert "the calibrated rows are transductive" in caplog.text


def test_a_background_with_texts_needs_nothing_else(toy: Path) -> None:
    folder = background(toy / "other", [f"extra/{i}" for i in range(8)], texts=True)
    state, _, facts = fitted_state(config(toy, f"calibration_background={folder}"))
    assert facts["texts"] == 8
    assert "texts_from" not in facts
    rewrite(toy, bool)
    after = fitted_state(config(toy, f"calibration_background={folder}"))[0]
    assert all(torch.equal(after[name], value) for name, value in state.items())


def test_backgrounds_that_cannot_be_used(toy: Path) -> None:
    benchmark = read_muvr(toy / "annotations")
    with pytest.raises(DataError, match=r"other sizes \(1 x 8 numbers a frame\) than the run's store \(1 x 16"):
        fitted_state(config(toy, f"calibration_background={background(toy / 'a', ['x', 'y'], dim=8)}"))
    with pytest.raises(DataError, match="no training video"):
        fitted_state(config(toy, f"calibration_background={background(toy / 'b', [benchmark.queries[0].id])}"))
    with pytest.raises(DataError, match="holds no other video than the query x's own"):
        fitted_state(config(toy, f"calibration_background={background(toy / 'c', ['x'])}"))


def test_without_a_training_split_a_background_is_asked_for(toy: Path) -> None:
    fractions = ("data.fractions=[0,0,1]", "trainer=cpu")
    with pytest.raises(DataError, match=r"no training split to fit the steps on .*calibration_background=STORE"):
        fitted_state(config(toy, *fractions))
    evaluated = Data("annotated", "FIVR", None, read_muvr(toy / "annotations"), "full", "supervised")
    with pytest.raises(DataError, match=r"no training split to fit the steps on .*calibration_background=STORE"):
        training_sample(evaluated)
    folder = background(toy / "other", [f"extra/{i}" for i in range(8)], texts=True)
    assert fitted_state(config(toy, *fractions, f"calibration_background={folder}"))[2]["videos"] == 8


MISTAKES = [
    (["calibration=[score_norm,centring]"], "centring changes features and cannot come after score_norm"),
    (["calibration=[z_fusion,product]"], "z_fusion and product both fuse"),
    (["calibration=[z_fusion]", "benchmark.modes=[v]"], "acts on mode tv only"),
    (
        ["calibration=[centring,score_norm,centring]"],
        "calibration=[centring,score_norm,centring]: centring is named twice",
    ),
    (["calibration=[centrin]"], "did you mean 'centring'"),
    (["calibration=[score_norm]", "calibration.score_norm.k=0"], "calibration.score_norm.k=0 is not possible"),
    (["calibration=[harris]", "calibration.harris.weight=x"], "calibration.harris.weight=x is not possible"),
    (["calibration=[query_expansion]", "calibration.query_expansion.alpha=-1"], "alpha=-1 is not possible"),
    (["calibration_background=x"], "but no step"),
    (["calibration=[pca_whitening]", "model.whiten=true"], "both whiten"),
    (["+calibration.mine=3"], "calibration.mine: a step is"),
    (["+calibration.mine={k: 3}"], "calibration.mine: a step is"),
]


@pytest.mark.parametrize(("typed", "message"), MISTAKES)
@pytest.mark.parametrize("program", ["evaluate", "train"])
def test_mistakes_are_found_before_anything_is_loaded(typed: list[str], message: str, program: str) -> None:
    with pytest.raises(ConfigError) as caught:
        cli.prepare(["model=frame_max", *typed], program)
    assert message in str(caught.value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("workplace"))


def content(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


@pytest.mark.slow
def test_a_run_saves_what_its_evaluation_uses_again(place: Workplace) -> None:
    done = place.call(
        *("train.py", "experiment=s2vs_evaclip", *place.data, "run=cal", "data.batch.topics=3", "trainer=cpu", *ALL),
        *("trainer.max_epochs=1", "trainer.steps_per_epoch=2", "benchmark.report=false"),
    )
    assert done.returncode == 0, done.stderr
    run = place.folder / "checkpoints" / "cal"
    (trained,) = content(run)["calibrated"]
    assert trained["name"].endswith(" + centring + query_expansion + score_norm + harris")
    assert trained["name"].split(" + ")[0] in done.stdout
    assert [step["name"] for step in trained["steps"]] == ["centring", "query_expansion", "score_norm", "harris"]
    assert [row["mode"] for row in trained["rows"] if row["partition"] == "mean"] == ["v", "t", "tv"]
    assert read_facts(run / FILE)["steps"] == trained["steps"]

    again = place.call(
        "evaluate.py", f"ckpt_path={run}/best.ckpt", "out=again", *ALL, "benchmark.report=false", "trainer=cpu"
    )
    assert again.returncode == 0, again.stderr
    assert "calibration.safetensors is used" in again.stderr
    (reloaded,) = content(place.folder / "again")["calibrated"]
    assert reloaded["rows"] == trained["rows"], "equal to the last digit, in a new process"
    assert reloaded["fitted_on"] == trained["fitted_on"]

    other = place.call(
        *("evaluate.py", f"ckpt_path={run}/best.ckpt", "out=other", *ALL, "calibration.score_norm.k=2"),
        *("benchmark.report=false", "trainer=cpu"),
    )
    assert other.returncode == 0, other.stderr
    assert "was fitted with other steps; the steps are fitted again" in other.stderr

    plain = place.call(
        "evaluate.py", f"ckpt_path={run}/best.ckpt", "out=plain", "benchmark.report=false", "trainer=cpu"
    )
    assert plain.returncode == 0, plain.stderr
    without = content(place.folder / "plain")
    assert without["rows"] == content(place.folder / "again")["rows"]
    assert without["calibrated"] == []


MINE = """
from muvr_train.search.calibration.base import CalibrationStep

class Halve(CalibrationStep):
    kind = "features"
    parts = ("video",)

    def features(self, x, part):
        if part != "video":
            return x
        return x * (x.new_tensor([1.0] * 8 + [0.0] * (x.shape[-1] - 8)))
"""


def test_a_step_of_ones_own_takes_two_files(toy: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """It stands beside the raw row in the table, in results.json and in per_query.csv."""
    folder = toy / "configs_of_mine" / "calibration"
    folder.mkdir(parents=True)
    (folder / "halve.yaml").write_text("halve:\n  _target_: my_steps.Halve\n")
    (toy / "my_steps.py").write_text(MINE)
    monkeypatch.chdir(toy)
    monkeypatch.setattr(sys, "path", [*sys.path])
    typed = ["model=frame_max", "data=muvr", "data.annotations=annotations", "data.features=features", "out=mine"]
    typed += ["benchmark.report=false", "benchmark.bootstrap=0", "trainer=cpu", "calibration=[halve,z_fusion]"]
    ready = cli.prepare([*typed, "--config-dir", "configs_of_mine"], "evaluate")
    cfg = Composer(cli.config_dir(), "evaluate", toy / "configs_of_mine").compose(ready[2:])
    evaluate(OmegaConf.masked_copy(cfg, [name for name in cfg if name != "hydra"]))
    assert "frame_max + halve + z_fusion" in capsys.readouterr().out
    found = content(toy / "mine")
    (row,) = found["calibrated"]
    assert {entry["mode"] for entry in row["rows"]} == {"v", "tv"}, "t is not touched and not repeated"
    assert row["fitted_on"]["evaluated_queries_among_them"] == row["fitted_on"]["queries"] == 12
    raw = {(entry["mode"], entry["partition"]): entry["metrics"]["mAP"] for entry in found["rows"]}
    assert any(entry["metrics"]["mAP"] != raw[entry["mode"], entry["partition"]] for entry in row["rows"])
    with (toy / "mine" / "per_query.csv").open(encoding="utf-8", newline="") as file:
        names = {line["model"] for line in csv.DictReader(file)}
    assert names == {"frame_max", "frame_max + halve + z_fusion"}
    assert (toy / "mine" / FILE).is_file()


def test_a_network_that_trains_refuses_whitening_before_data_is_touched() -> None:
    typed = ["model=s2vs", "model.whiten=false", "data=muvr", "data.annotations=nowhere", "data.features=nowhere"]
    cfg = Composer(cli.config_dir(), "train").compose([*typed, "calibration=[pca_whitening]", "trainer=cpu"])
    with pytest.raises(ConfigError, match="pca_whitening changes what the network compares, but S2VS has weights"):
        train(cfg)


def test_a_store_without_texts_refuses_a_fusion_before_it_is_scored(toy: Path) -> None:
    for path in (toy / "features").glob("*/*.pkl"):
        path.unlink()
    cfg = config(toy, "calibration=[z_fusion]", "trainer=cpu", f"out={toy / 'out'}")
    with pytest.raises(
        ConfigError, match=r"changes only the modes tv of this model, and those that are evaluated are v"
    ):
        evaluate(cfg)
    assert not (toy / "out").exists()
