"""evaluate.py rerank=...: the order that answers give, on toy data with answerers that look at nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muvr_train.errors import ConfigError
from muvr_train.reports.comparison import compare_runs
from muvr_train.reports.runs import read_run
from tests.rerank.reranked import (
    K,
    Workplace,
    answers_of,
    expected_precisions,
    expected_rows,
    metrics,
    positives_of,
    rerank,
)


@pytest.mark.parametrize("method", ["keep_drop", "probability"])
def test_an_oracle_is_the_perfect_reranker_and_the_raw_rows_stay(place: Workplace, method: str) -> None:
    place.evaluate(*place.model, *rerank(method, "oracle"), f"out=oracle-{method}")
    content, raw = place.results(f"oracle-{method}"), place.results("raw")
    assert content["rows"] == raw["rows"]
    row, perfect = content["reranked"]
    assert (row["name"], perfect["name"]) == (f"frame_max + rerank@{K} (oracle)", f"perfect reranker@{K}")
    assert row["rows"] == perfect["rows"]
    assert metrics(row["rows"])["mean"]["mAP"] > metrics(raw["rows"])["mean"]["mAP"]
    counts = {"pairs": 20 * K, "calls": 20 * K, "from_file": 0, "failed": 0, "invalid": 0, "used": 20 * K}
    assert row["counts"] == counts
    assert row["cost"]["pairs_per_query"] == K
    assert row["settings"]["method"] == method
    assert row["answerer"]["name"] == "oracle"
    assert "counts" not in perfect
    gain = {(entry["partition"], entry["metric"]): entry for entry in row["gains"]}
    assert {name for name, _ in gain} == {"news", "dance", "mean"}
    for (partition, metric), entry in gain.items():
        before, after = (metrics(rows)[partition][metric] for rows in (raw["rows"], row["rows"]))
        assert (entry["before"], entry["after"], entry["perfect"]) == (before, after, after)
        assert entry["difference"] == after - before
    lines = place.lines(f"oracle-{method}", row["name"])
    assert len(lines) == 20
    known = {(query, video): "yes" for query, one in lines.items() for video in positives_of(place, query)}
    every = {pair: known.get(pair, "no") for pair in answers_of(f"oracle-{method}")}
    assert answers_of(f"oracle-{method}") == every
    expected = expected_precisions(place, method, every)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("method", ["keep_drop", "probability"])
def test_a_coin_gives_what_the_slow_twin_gives(place: Workplace, method: str) -> None:
    out = f"coin-{method}"
    place.evaluate(*place.file, *rerank(method, "coin", "answerer.seed=3"), f"out={out}", "save_scores=true")
    (row, _), answers = place.results(f"coin-{method}")["reranked"], answers_of(f"coin-{method}")
    assert len(answers) == 20 * K
    assert set(answers.values()) == {"yes", "no"}
    lines = place.lines(f"coin-{method}", row["name"])
    expected = expected_precisions(place, method, answers)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx(expected_precisions(place, method, {}))
    place.evaluate(*place.data, f"scores={out}/reranked_scores_tv.npz", "out=saved", "overwrite=true")
    saved, after = (metrics(rows) for rows in (place.results("saved")["rows"], row["rows"]))
    assert saved == {name: pytest.approx(values, abs=1e-12) for name, values in after.items()}


def test_always_yes_changes_nothing_and_always_no_drops_all(place: Workplace) -> None:
    raw = expected_rows(place)
    for method in ("keep_drop", "probability"):
        place.evaluate(*place.file, *rerank(method, "always_yes"), f"out=yes-{method}")
        assert metrics(place.results(f"yes-{method}")["reranked"][0]["rows"]) == raw
    place.evaluate(*place.file, *rerank("keep_drop", "always_no"), "out=no")
    row = place.results("no")["reranked"][0]
    answers = answers_of("no")
    assert set(answers.values()) == {"no"}
    lines = place.lines("no", row["name"])
    expected = expected_precisions(place, "keep_drop", answers)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)


def test_scores_of_a_file_are_reranked_like_those_of_the_model(place: Workplace) -> None:
    coin = ("answerer.seed=3",)
    place.evaluate(*place.model, *rerank("keep_drop", "coin", *coin), "out=by-model")
    place.evaluate(*place.data, "scores=raw/scores_tv.npz", *rerank("keep_drop", "coin", *coin), "out=by-file")
    model, file = (place.results(out)["reranked"][0] for out in ("by-model", "by-file"))
    assert file["name"] == f"scores_tv + rerank@{K} (coin)"
    expected = {name: pytest.approx(row, abs=1e-12) for name, row in metrics(model["rows"]).items()}
    assert metrics(file["rows"]) == expected
    files = "scores=[raw/scores_tv.npz,raw/scores_v.npz]"
    place.evaluate(*place.data, files, *rerank("probability", "oracle"), "out=by-fusion")
    fused = place.results("by-fusion")
    assert [row["name"] for row in fused["reranked"]] == [
        f"fusion: z_mean + rerank@{K} (oracle)",
        f"perfect reranker@{K}",
    ]
    assert fused["reranked"][0]["mode"] == "tv+v"


def test_queries_with_tag_expressions_in_the_first_mode_of_tags(place: Workplace) -> None:
    typed = ("benchmark=muvr_filter", *rerank("keep_drop", "oracle"), "save_scores=true", "out=tags")
    flat = place.evaluate(*place.model, *typed)
    content = place.results("tags")
    row, perfect = content["reranked"]
    raw = {(one["mode"], one["partition"]): one for one in content["rows"]}
    assert row["mode"] == "tag_0.3"
    assert row["rows"] == perfect["rows"]
    assert {one["mode"] for one in row["rows"]} == {"tag_0.3"}
    expressions = raw["tag_0.3", "mean"]["counts"]["expressions"]
    assert row["counts"]["pairs"] == K * expressions == 5 * 2 * 9 * 4
    for one in row["rows"]:
        before = raw["tag_0.3", one["partition"]]
        assert one["metrics"]["mAP"] > before["metrics"]["mAP"]
        shared = before["counts"].keys() & one["counts"].keys()
        assert {name: one["counts"][name] for name in shared - {"ties"}} == {
            name: before["counts"][name] for name in shared - {"ties"}
        }
    assert not any("rerank" in name for name in flat)
    questions = [json.loads(line) for line in Path("tags/questions.jsonl").read_text(encoding="utf-8").splitlines()]
    assert sum("|+night" in one["question"] for one in questions) == K * 2 * 9 * 2  # +night and +night -crowd
    assert any("must not show" in one["prompt"] for one in questions)
    place.evaluate(
        *place.data, "benchmark=muvr_filter", "scores=tags/reranked_scores_tag_0.3.npz", "out=saved", "overwrite=true"
    )
    saved, after = (metrics(rows, "tag_0.3") for rows in (place.results("saved")["rows"], row["rows"]))
    assert saved == {name: pytest.approx(values, abs=1e-12) for name, values in after.items()}


def test_another_mode_is_reranked_where_it_is_asked_for(place: Workplace) -> None:
    place.evaluate(*place.model, *rerank("probability", "always_yes", "rerank.mode=v"), "out=mode")
    row = place.results("mode")["reranked"][0]
    assert {one["mode"] for one in row["rows"]} == {"v"} == {row["mode"]}
    assert metrics(row["rows"], "v") == metrics(place.results("raw")["rows"], "v")
    with pytest.raises(ConfigError, match=r"rerank.mode=w is not evaluated: benchmark=muvr_base has v, t, tv"):
        place.evaluate(*place.model, *rerank("probability", "always_yes", "rerank.mode=w"), "out=mode-w")


def test_probabilities_sort_and_are_all_that_counts(place: Workplace) -> None:
    more = ("answerer.says=logprob", "rerank.decision=logprob")
    place.evaluate(*place.file, "rerank=probability", f"rerank.top_k={K}", "answerer=mine", *more, "out=shares")
    row = place.results("shares")["reranked"][0]
    assert row["counts"]["used"] == 20 * K
    assert row["cost"]["prompt_tokens_per_query"] == 100 * K
    assert row["cost"]["completion_tokens_per_query"] is None
    before, after = (metrics(rows)["mean"] for rows in (place.results("raw")["rows"], row["rows"]))
    assert after["recall@5"] == pytest.approx(before["recall@5"], abs=1e-12)
    assert after["mAP"] != pytest.approx(before["mAP"])


def test_intervals_of_gains_are_those_of_a_paired_comparison(place: Workplace) -> None:
    place.evaluate(
        *place.model,
        *rerank("keep_drop", "coin"),
        "out=paired",
        "benchmark.bootstrap=200",
        "benchmark.report=false",
        quiet=False,
    )
    row = place.results("paired")["reranked"][0]
    found = {(gain["partition"], gain["metric"]): gain for gain in row["gains"]}
    runs = [read_run("paired"), read_run(f"paired:{row['name']}")]
    for metric in ("mAP", "uAP"):
        compared = compare_runs(runs, metric, mode="tv", resamples=200)
        for line in compared["rows"]:
            gain, other = found[line["partition"], metric], line["differences"][0]
            assert gain["difference"] == pytest.approx(other["difference"], abs=1e-12)
            assert gain["interval"] == pytest.approx(other["interval"], abs=1e-12)
        assert {line["partition"] for line in compared["rows"]} == {"news", "dance", "mean"}
