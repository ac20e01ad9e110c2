"""The fusion study's scoring, on toy data with tags: plain modes and their judgement by tag expressions."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.evaluation import Protocol, evaluate_scores
from muvr_train.search.sources import ModelScores
from tests.parts import make_parts
from tests.test_parts_evaluation import model_of

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import fusion_study


def test_rows_are_those_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_study, "RESAMPLES", 20)
    annotations, store = make_parts(tmp_path)
    part = read_muvr(annotations, filters="beside").select("all", "full")
    model = model_of(store)
    rows, drawn = fusion_study.evaluated(model, store, part)
    expected = evaluate_scores(ModelScores(model, store), part, Protocol(modes=fusion_study.MODES, ks=(10,)))
    for row in expected.rows:
        assert rows[row["mode"]][row["partition"]]["mAP"] == row["metrics"]["mAP"]
    names = [partition.name for partition in part.partitions]
    for mode in ("v, tags ignored", "tv, tags ignored"):
        assert rows[mode].keys() == {*names, "mean"}
        assert rows[mode]["mean"]["mAP"] == pytest.approx(np.mean([rows[mode][name]["mAP"] for name in names]))
        assert all(drawn[mode, name, "mAP"].shape == (20,) for name in names)
    assert rows["tv, tags ignored"] != rows["tv"]


def test_the_facts_of_a_study(tmp_path: Path) -> None:
    options = Namespace(work=tmp_path, pilot=False, set=["seed=3"])
    fusion_study.write(options, fusion_study.UNTRAINED, {"corpus": "toy-v1", "rows": {}})
    facts = fusion_study.meta(options, 1.0)
    assert facts["corpus"] == "toy-v1"
    assert facts["settings"][-1] == "seed=3"
    assert json.loads(json.dumps(facts)) == facts
