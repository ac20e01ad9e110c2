"""`data.train_partitions`: what is learned comes from these partitions only, what is evaluated from all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits, keep_partitions, refuse_unknown_partitions
from muvr_train.errors import ConfigError, DataError
from muvr_train.reports.comparison import compare_runs
from muvr_train.reports.runs import read_run
from muvr_train.runner.models import build_retriever, fit_model
from tests.compared_runs import write_run
from tests.test_end_to_end import Workplace
from tests.test_held_out_videos import opened
from tests.toy import make_toy


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    make_toy(tmp_path)
    return tmp_path


def test_only_their_topics_and_videos_are_trained_on(toy: Path) -> None:
    whole, dance = opened(toy), opened(toy, "data.train_partitions=[dance]")
    assert {query.partition for query in whole.train_part.queries} == {"news", "dance"}
    assert dance.train_part.queries == tuple(q for q in whole.train_part.queries if q.partition == "dance")
    assert dance.trained_queries == {q.id for q in dance.train_part.queries}
    assert {video.split("/")[0] for video in dance.train_videos} == {"dance"}
    assert set(dance.train_videos) == {video for video in whole.train_videos if video.startswith("dance/")}
    for split in ("val", "test", "all"):
        assert dance.part(split).queries == whole.part(split).queries
        assert dance.part(split).video_ids == whole.part(split).video_ids
    both = opened(toy, "data.train_partitions=[dance,news]")
    assert both.train_part == whole.train_part  # in the annotation's order


def test_the_whitening_is_fitted_on_their_videos(toy: Path) -> None:
    model = {"_target_": "muvr_train.models.frame_max.FrameMax", "whiten": True}
    head = {"_target_": "muvr_train.models.fusion.mean.MeanFusion"}
    vectors = []
    for names in ("null", "[dance]"):
        data = opened(toy, f"data.train_partitions={names}")
        built = build_retriever(model, head, data.store.dims)
        fit_model(built, data.store, data.train_videos)
        alone = build_retriever(model, head, data.store.dims)
        if names != "null":
            known = [video for video in opened(toy).train_videos if video.startswith("dance/")]
            fit_model(alone, data.store, known)
            assert all(torch.equal(a, b) for a, b in zip(built.buffers(), alone.buffers(), strict=True))
        vectors.append(torch.cat([buffer.flatten().float() for buffer in built.buffers()]))
    assert not torch.equal(*vectors)


def test_partitions_that_are_not_there(toy: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"no partition 'danse'; did you mean 'dance'\?; it has dance, news|news, dance"
    ):
        opened(toy, "data.train_partitions=[danse]")
    benchmark = apply_splits(read_muvr(toy / "annotations"))
    refuse_unknown_partitions(benchmark, None)
    assert keep_partitions(benchmark, None) is benchmark
    news = replace(benchmark, partitions=tuple(part for part in benchmark.partitions if part.name == "news"))
    with pytest.raises(DataError, match=r"leaves no training query; there are some in news"):
        keep_partitions(news, ["dance"])


def test_runs_that_were_trained_on_other_partitions_are_compared_and_told_apart(tmp_path: Path) -> None:
    runs = []
    for name, partitions in (("all", None), ("news", ["news"]), ("both", ["dance", "news"])):
        path = write_run(tmp_path / name, len(runs)) / "results.json"
        content = json.loads(path.read_text())
        if partitions:
            content["meta"]["protocol"]["train_partitions"] = partitions
        path.write_text(json.dumps(content))
        runs.append(read_run(str(path.parent)))
    notes = compare_runs(runs)["notes"]
    assert "news: trained on the topics of news only" in notes
    assert "both: trained on the topics of dance, news only" in notes
    assert not any("trained on" in note for note in compare_runs([runs[1], replace(runs[1], name="again")])["notes"])


@pytest.mark.slow
def test_a_run_says_what_it_and_the_untrained_rows_have_seen(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    short = ("trainer.max_epochs=1", "trainer.steps_per_epoch=2", "trainer=cpu", "logger=csv", "data.batch.topics=2")
    more = ("data.train_partitions=[dance]", "benchmark.report=false")
    done = place.call("train.py", "experiment=s2vs_evaclip", *place.data, "run=part", *short, *more)
    assert done.returncode == 0, done.stderr
    assert "fitted on the training videos of the same partitions" in " ".join(done.stdout.split())
    folder = tmp_path / "checkpoints" / "part"
    meta = json.loads((folder / "results.json").read_text())["meta"]
    assert meta["protocol"]["train_partitions"] == ["dance"]
    recipe = torch.load(folder / "best.ckpt", weights_only=True)["muvr_train"]
    assert recipe["data"]["train_partitions"] == ["dance"]
    assert {query.split("/")[0] for query in recipe["trained_queries"]} == {"dance"}
    # also where the data are named anew: the untrained rows are fitted on what the checkpoint has seen
    again = place.call(
        "evaluate.py", f"ckpt_path={folder / 'best.ckpt'}", *place.data, "out=again", "benchmark.report=false"
    )
    assert again.returncode == 0, again.stderr
    own, other = (json.loads((path / "results.json").read_text()) for path in (folder, tmp_path / "again"))
    assert other["meta"]["protocol"]["train_partitions"] == ["dance"]
    for first, second in zip(own["baselines"], other["baselines"], strict=True):
        assert [row["metrics"] for row in first["rows"]] == [pytest.approx(row["metrics"]) for row in second["rows"]]
