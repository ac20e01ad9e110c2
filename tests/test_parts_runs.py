"""Runs with tags, regions and hidden parts: what a config builds, and a whole run from the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.benchmarks.types import Benchmark
from muvr_train.data.mining import MinedNegatives
from muvr_train.data.part_dropout import PartDropout
from muvr_train.errors import DataError
from muvr_train.features.import_muvr import import_muvr
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.processes import SINGLE
from muvr_train.runner.batches import supervised_batches
from muvr_train.runner.data import Data
from tests.cli.test_prepare import composed
from tests.parts import make_parts
from tests.tagged import make_tagged, write_query
from tests.test_end_to_end import Workplace
from tests.toy import make_toy

World = tuple[Path, FeatureStore]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_parts(tmp_path_factory.mktemp("parts"))


def settings(*args: str) -> DictConfig:
    cfg = composed(["data=muvr", "data.annotations=a", "data.features=f", *args])
    return OmegaConf.masked_copy(cfg, ["data", "seed"])


def data_of(annotations: Path, store: FeatureStore) -> Data:
    benchmark: Benchmark = apply_splits(read_muvr(annotations, filters="beside"))
    return Data("muvr", "toy", store, benchmark, "split", "supervised")


def test_a_config_builds_the_batches_it_names(world: World) -> None:
    args = ("data.batch.tag_rows=2", "data.regions=true", "data.part_dropout.text=0.25", "data.part_dropout.region=1")
    batches = supervised_batches(settings(*args), data_of(*world), SINGLE, MinedNegatives())
    assert (batches.plan.tag_rows, batches.regions) == (2, True)
    assert batches.dropout == PartDropout(text=0.25, region=1.0)
    batch = batches[0]
    assert len(batch.queries) > len(set(batch.queries.ids))
    assert not batch.queries.present["region"].any()
    plain = supervised_batches(settings(), data_of(*world), SINGLE, MinedNegatives())
    assert not plain.dropout
    assert set(plain[0].queries.present) == {"video", "text"}
    assert (plain[0].queries.tags, plain[0].queries.region) == (None, None)


def test_what_training_asks_for_must_be_there(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    annotations, features = make_toy(tmp_path / "plain")
    import_muvr(features, tmp_path / "poor")
    poor = data_of(annotations, FeatureStore(tmp_path / "poor"))
    with pytest.raises(DataError, match=r"data.batch.tag_rows=1: no training query has a tag expression in the "):
        supervised_batches(settings("data.batch.tag_rows=1"), poor, SINGLE, MinedNegatives())
    with pytest.raises(DataError, match=r"data.regions=true: no .* has a marked region .* data.features=f"):
        supervised_batches(settings("data.regions=true"), poor, SINGLE, MinedNegatives())
    chosen = settings("data.regions=true", "data.train_partitions=[news]")
    with pytest.raises(DataError, match=r"no training query of data.train_partitions=\[news\] has a marked region"):
        supervised_batches(chosen, poor, SINGLE, MinedNegatives())
    asked = settings(
        "data.batch.tag_rows=1", "data.regions=true", "data.optional_parts=true", "data.part_dropout={tags:1,region:1}"
    )
    with caplog.at_level("WARNING"):
        without = supervised_batches(asked, poor, SINGLE, MinedNegatives())
    plain_batches = supervised_batches(settings(), poor, SINGLE, MinedNegatives())
    assert without[3].queries.ids == plain_batches[3].queries.ids
    assert set(without[3].queries.present) == {"video", "text"}
    assert caplog.text.count("trained without") == 2
    annotations, features = make_tagged(tmp_path / "tagged")
    for path in (features / "news").glob("*_query_dict.pkl"):
        write_query(path.parent, path.name.removesuffix("_query_dict.pkl"), np.ones((1, 16), np.float32), {})
    import_muvr(features, tmp_path / "half")
    half = supervised_batches(
        settings("data.batch.tag_rows=1"),
        data_of(annotations, FeatureStore(tmp_path / "half")),
        SINGLE,
        MinedNegatives(),
    )
    assert {query.partition("/")[0] for query in half.plan.tagged} == {"dance"}
    assert "tag expressions of training queries have no vectors and are left out of training" in caplog.text


@pytest.mark.parametrize("part", ["video", "text"])
def test_nothing_is_hidden_where_no_query_has_a_text(
    part: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    annotations, features = make_toy(tmp_path / "toy")
    import_muvr(features, tmp_path / "whole")
    imported = FeatureStore(tmp_path / "whole")
    with StoreWriter(tmp_path / "mute", {"encoder": "x"}, "float32") as writer:
        for video in imported.ids():
            writer.add(video, np.asarray(imported.array(video)))
    mute = data_of(annotations, FeatureStore(tmp_path / "mute"))
    with pytest.raises(DataError, match=rf"data.part_dropout.{part}=0.5: no training query has a text"):
        supervised_batches(settings(f"data.part_dropout.{part}=0.5"), mute, SINGLE, MinedNegatives())
    with caplog.at_level("WARNING"):
        asked = settings(f"data.part_dropout.{part}=0.5", "data.optional_parts=true")
        batches = supervised_batches(asked, mute, SINGLE, MinedNegatives())
    assert not batches.dropout
    assert caplog.text.count("trained without") == 1


@pytest.mark.slow
def test_a_run_with_all_parts(tmp_path: Path) -> None:
    place = Workplace(tmp_path / "place")
    annotations, store = make_parts(tmp_path / "parts")
    done = place.call(
        *("train.py", "fusion=weighted", "data=muvr", f"data.annotations={annotations}", f"data.features={store.path}"),
        *("run=parts", "trainer=cpu", "trainer.max_epochs=1", "trainer.steps_per_epoch=4", "data.batch.topics=3"),
        *("data.batch.tag_rows=2", "data.regions=true", "data.part_dropout={video:0.3,text:0.3,tags:0.2,region:0.3}"),
        *("trainer.monitor=val/muvr_base/tv+tag/mean/mAP", "benchmark.bootstrap=0"),
    )
    assert done.returncode == 0, done.stderr
    folder = place.folder / "checkpoints" / "parts"
    rows = json.loads((folder / "results.json").read_text(encoding="utf-8"))["rows"]
    assert list(dict.fromkeys(row["mode"] for row in rows)) == ["v", "t", "tv", "tv+tag", "tv+region"]
    with (folder / "metrics.csv").open(encoding="utf-8") as file:
        logged = {line["name"] for line in csv.DictReader(file)}
    assert {"val/muvr_base/tv+tag/mean/mAP", "zero_shot/muvr_base/tv+tag/mean/mAP"} <= logged
    again = place.call(
        "evaluate.py",
        f"ckpt_path={folder / 'best.ckpt'}",
        "benchmark=muvr_filter",
        "out=filter",
        "benchmark.report=false",
    )
    assert again.returncode == 0, again.stderr
    found = json.loads((place.folder / "filter" / "results.json").read_text(encoding="utf-8"))["rows"]
    wanted = next(row for row in rows if (row["mode"], row["partition"]) == ("tv+tag", "mean"))
    ours = next(row for row in found if (row["mode"], row["partition"]) == ("tv+tag", "mean"))
    assert ours["metrics"] == pytest.approx(wanted["metrics"], abs=1e-6)
