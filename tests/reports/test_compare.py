"""Comparing runs from the command line: numbers, tables, files."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.galleries import gallery_digests
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition
from muvr_train.metrics.bootstrap import draw_topics
from muvr_train.metrics.significance import effect_size, sign_flip_p
from muvr_train.reports.compare import main
from tests.compared_runs import compared, make_benchmark, refused, write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    write_run(root / "a", 0)
    write_run(root / "b", 1, bonus=0.6)
    write_run(root / "läufe [c]", 2)
    return root


def precisions(folder: Path, partition: str, model: str) -> dict[str, tuple[str, float]]:
    with (folder / "per_query.csv").open(encoding="utf-8", newline="") as file:
        return {
            line["query"]: (line["topic"], float(line["AP"]))
            for line in csv.DictReader(file)
            if line["partition"] == partition and line["model"] == model
        }


def test_numbers_are_those_of_the_definitions(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, runs / "a", runs / "b", "--resamples", 300)
    rows = {row["partition"]: row for row in found["rows"]}
    assert list(rows) == ["news", "dance", "mean"]
    shares, topic_means, drawn = [], [], []
    for name in ("news", "dance"):
        a, b = precisions(runs / "a", name, "a"), precisions(runs / "b", name, "b")
        topics = np.array([a[query][0] for query in a])
        gains = np.array([b[query][1] - a[query][1] for query in a])
        row, other = rows[name], rows[name]["differences"][0]
        assert (row["queries"], row["topics"]) == (12, 6)
        assert row["values"] == pytest.approx([np.mean([v for _, v in run.values()]) for run in (a, b)])
        assert other["difference"] == pytest.approx(gains.mean())
        names = sorted(set(topics))
        sums = np.array([gains[topics == topic].sum() for topic in names])
        sizes = np.array([(topics == topic).sum() for topic in names])
        assert other["p"] == pytest.approx(sign_flip_p(sums / 12))
        assert other["effect_size"] == pytest.approx(effect_size(sums / sizes))
        weights = draw_topics(topics.tolist(), 300).weights
        drawn.append((sums @ weights) / (sizes @ weights))
        assert other["interval"] == pytest.approx(np.percentile(drawn[-1], [2.5, 97.5]))
        shares.append(sums / 12 / 2)
        topic_means.append(sums / sizes)
    mean, other = rows["mean"], rows["mean"]["differences"][0]
    assert mean["values"] == pytest.approx((np.array(rows["news"]["values"]) + rows["dance"]["values"]) / 2)
    assert (mean["queries"], mean["topics"]) == (24, 12)
    assert other["interval"] == pytest.approx(np.percentile(np.mean(drawn, axis=0), [2.5, 97.5]))
    assert other["p"] == pytest.approx(sign_flip_p(np.concatenate(shares)))
    assert other["effect_size"] == pytest.approx(effect_size(np.concatenate(topic_means)))
    assert other["p"] == other["p_holm"] < 0.05


def test_partitions_that_share_topics_flip_them_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    news, dance = make_benchmark().partitions
    tasks = Benchmark("toy", (news, replace(news, name="hard", database=news.database[:-8]), dance))
    a, b = (write_run(tmp_path / name, seed, tasks) for seed, name in enumerate("ab"))
    shares: dict[str, float] = {}
    topic_means: dict[str, list[float]] = {}
    for name in ("news", "hard", "dance"):
        first, second = precisions(a, name, "a"), precisions(b, name, "b")
        for topic in {topic for topic, _ in first.values()}:
            gains = [second[query][1] - value for query, (own, value) in first.items() if own == topic]
            shares[topic] = shares.get(topic, 0.0) + sum(gains) / len(first) / 3
            topic_means.setdefault(topic, []).append(float(np.mean(gains)))
    mean = compared(capsys, a, b)["rows"][-1]
    other = mean["differences"][0]
    assert (mean["partition"], mean["topics"], mean["queries"]) == ("mean", 12, 24)
    assert other["difference"] == pytest.approx(sum(shares.values()))
    assert other["p"] == pytest.approx(sign_flip_p(np.array(list(shares.values()))))
    assert other["effect_size"] == pytest.approx(effect_size(np.array([np.mean(v) for v in topic_means.values()])))


def test_the_mean_over_twice_the_same_partition_says_no_more_than_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    news = make_benchmark().partitions[0]
    twice = Benchmark("toy", (news, replace(news, name="again")))
    a, b = (write_run(tmp_path / name, seed, twice) for seed, name in enumerate("ab"))
    one, _, mean = compared(capsys, a, b)["rows"]
    assert (mean["topics"], mean["queries"]) == (one["topics"], one["queries"]) == (6, 12)
    assert mean["differences"][0]["interval"] == pytest.approx(one["differences"][0]["interval"])
    for name in ("difference", "p", "p_holm", "effect_size"):
        assert mean["differences"][0][name] == pytest.approx(one["differences"][0][name])


def test_partitions_that_a_run_lacks_are_named_and_the_mean_is_called_otherwise(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    news = make_benchmark().partitions[0]
    one = write_run(tmp_path / "one", 5, Benchmark("toy", (news,)))
    for order in ((runs / "a", one), (one, runs / "a")):
        found = compared(capsys, *order, "--common")
        assert [row["partition"] for row in found["rows"]] == ["news", "mean of common"]
        assert any("dance: not in every run" in note for note in found["notes"])
        assert found["rows"][0]["differences"] == found["rows"][1]["differences"]
    assert main([*map(str, order), "--common", "--out", str(tmp_path / "out")]) == 0
    assert "mean of common (6 topics, 12 queries)" in capsys.readouterr().out
    assert compared(capsys, runs / "a", runs / "b", "--common")["rows"][-1]["partition"] == "mean"


def test_a_partition_outside_the_mean_may_lack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    news, dance = make_benchmark().partitions
    both = write_run(tmp_path / "both", 0, Benchmark("toy", (news, dance), averaged=("news",)))
    one = write_run(tmp_path / "one", 1, Benchmark("toy", (news,), averaged=("news",)))
    found = compared(capsys, both, one, "--common")
    assert [row["partition"] for row in found["rows"]] == ["news", "mean"]
    assert any("dance: not in every run" in note for note in found["notes"])


def test_an_upper_bound_is_no_run_to_be_tested_unless_asked(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = []
    for name in "ab":
        folders.append(shutil.copytree(runs / name, tmp_path / f"{name} bound"))
        path = folders[-1] / "per_query.csv"
        header, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        more = [line.replace(",v,", ",upper_bound_by_labels,") for line in lines]
        path.write_text("".join([header, *lines, *more]), encoding="utf-8")
    texts = [f"{folder}:{name}" for folder, name in zip(folders, "ab", strict=True)]
    assert {row["mode"] for row in compared(capsys, *texts)["rows"]} == {"v"}
    asked = compared(capsys, *texts, "--mode", "upper_bound_by_labels")["rows"]
    assert {row["mode"] for row in asked} == {"upper_bound_by_labels"}


def test_a_run_against_a_baseline_in_its_folder(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, f"{runs / 'a'}:frame_max", runs / "a", "--metric", "recall@5")
    assert [run["name"] for run in found["runs"]] == ["a:frame_max", "a"]
    content = json.loads((runs / "a" / "results.json").read_text(encoding="utf-8"))
    assert found["rows"][-1]["values"][1] == pytest.approx(content["rows"][-1]["metrics"]["recall@5"])
    assert found["rows"][-1]["values"][0] == pytest.approx(content["baselines"][0]["rows"][-1]["metrics"]["recall@5"])


def test_a_calibrated_row_and_colons_in_names(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = shutil.copytree(runs / "a", tmp_path / "x: y")
    content = json.loads((target / "results.json").read_text(encoding="utf-8"))
    content["calibrated"] = [{**content.pop("baselines")[0], "name": "whitened: 8"}]
    (target / "results.json").write_text(json.dumps(content), encoding="utf-8")
    lines = (target / "per_query.csv").read_text(encoding="utf-8").replace("frame_max", "whitened: 8")
    (target / "per_query.csv").write_text(lines, encoding="utf-8")
    found = compared(capsys, runs / "a", f"{target}:whitened: 8")
    assert found["runs"][1]["name"] == "x: y:whitened: 8"
    plain = compared(capsys, runs / "a", f"{runs / 'a'}:frame_max")
    assert [row["values"] for row in found["rows"]] == [row["values"] for row in plain["rows"]]


def test_holm_over_several_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, runs / "a", runs / "b", runs / "läufe [c]")
    for row in found["rows"]:
        p_values = sorted(other["p"] for other in row["differences"])
        adjusted = sorted(other["p_holm"] for other in row["differences"])
        assert adjusted == pytest.approx([min(1, 2 * p_values[0]), max(min(1, 2 * p_values[0]), p_values[1])])


def test_uap_has_paired_intervals_from_the_evaluation(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(capsys, runs / "a", runs / "b", "--metric", "uAP")
    row = found["rows"][0]
    with np.load(runs / "a" / "resampled.npz") as a, np.load(runs / "b" / "resampled.npz") as b:
        gains = b["uAP"][0] - a["uAP"][0]
    other = row["differences"][0]
    assert other["interval"] == pytest.approx(np.percentile(gains, [2.5, 97.5]))
    content = json.loads((runs / "a" / "results.json").read_text(encoding="utf-8"))
    assert row["intervals"][0] == pytest.approx(content["rows"][0]["intervals"]["uAP"])
    assert row["values"][0] == pytest.approx(content["rows"][0]["metrics"]["uAP"])
    assert other["p"] is None
    assert any("no p value" in note for note in found["notes"])


def test_uap_without_resampled_values_says_so(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = write_run(tmp_path / "plain", 5, bootstrap=0)
    found = compared(capsys, runs / "a", other, "--metric", "uAP")
    assert found["rows"][0]["differences"][0]["interval"] is None
    assert isinstance(found["rows"][0]["differences"][0]["difference"], float)
    assert any("benchmark.bootstrap" in note for note in found["notes"])


def test_uap_that_a_run_does_not_have(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "x")
    path = tmp_path / "x" / "results.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"uAP"', '"other"'), encoding="utf-8")
    assert "x has no uAP of mode v, partition news" in refused(capsys, 1, runs / "b", tmp_path / "x", "--metric", "uAP")


def test_files_and_tables(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs / "a"), str(runs / "b"), str(runs / "läufe [c]"), "--out", str(tmp_path / "x" / "y")]) == 0
    shown = capsys.readouterr().out
    assert "läufe [c]" in shown
    assert "mAP (%), query v" in shown
    assert "mean (12 topics, 24 queries)" in shown
    content = json.loads((tmp_path / "x" / "y" / "compare.json").read_text(encoding="utf-8"))
    difference = content["rows"][-1]["differences"][0]["difference"]
    assert f"{100 * difference:+.1f}" in shown
    text = (tmp_path / "x" / "y" / "compare.md").read_text(encoding="utf-8")
    assert f"{100 * difference:+.1f}" in text
    assert "![differences](compare.png)" in text
    with Image.open(tmp_path / "x" / "y" / "compare.png") as picture:
        assert picture.width > 400
        assert len(picture.convert("RGB").getcolors(1 << 20) or []) > 20


def test_runs_of_one_name_are_told_apart(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    names = [run["name"] for run in compared(capsys, runs / "a", tmp_path / "a")["runs"]]
    assert names == [str(runs / "a"), str(tmp_path / "a")]


def test_resamples_that_say_nothing_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    news = make_benchmark(topics=3).partitions[0]
    judgements = tuple(
        Judgement(query.id, {}, counted=False) if query.topic == "news/t0" else news.judgements[place]
        for place, query in enumerate(news.queries)
    )
    small = Benchmark("toy", (replace(news, judgements=judgements),))
    a, b = (write_run(tmp_path / name, seed, small) for seed, name in enumerate("ab"))
    lost = int((draw_topics(news.topics, 200).weights[0] == 3).sum())
    assert lost > 0
    for metric in ("mAP", "uAP"):
        found = compared(capsys, a, b, "--metric", metric, "--resamples", 200)
        assert f"v, news: {lost} of 200 resamples have no counted query or no match; left out" in found["notes"]
        assert np.isfinite(found["rows"][0]["differences"][0]["interval"]).all()


def test_equal_runs_do_not_differ(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "twin")
    for row in compared(capsys, runs / "a", tmp_path / "twin")["rows"]:
        other = row["differences"][0]
        assert (other["difference"], other["interval"], other["p"], other["effect_size"]) == (0, [0, 0], 1, 0)


def test_one_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = make_benchmark(topics=1)
    a, b = (write_run(tmp_path / name, seed, small) for seed, name in enumerate("ab"))
    found = compared(capsys, a, b)
    other = found["rows"][0]["differences"][0]
    assert (other["interval"], other["p"], other["effect_size"]) == (None, None, None)
    assert any("one search topic" in note for note in found["notes"])
    assert main([str(a), str(b), "--out", str(tmp_path / "out")]) == 0


def test_few_topics_cannot_be_significant_and_the_notes_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = make_benchmark(topics=4)
    a, b = (write_run(tmp_path / name, seed, small) for seed, name in enumerate("ab"))
    assert any(
        "v: news, dance: with five topics or fewer no p value" in note for note in compared(capsys, a, b)["notes"]
    )


def test_a_mean_of_few_topics_cannot_be_significant_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = make_benchmark(topics=2)
    a, b = (write_run(tmp_path / name, seed, small) for seed, name in enumerate("ab"))
    found = compared(capsys, a, b)
    assert found["rows"][-1]["topics"] == 4
    assert any(note.startswith("v: news, dance, mean: with five topics") for note in found["notes"])


def test_gallery_digests_do_not_depend_on_order() -> None:
    benchmark = make_benchmark()
    news = benchmark.partitions[0]
    turned = Partition(news.name, news.queries, news.judgements, news.database[::-1])
    shorter = Partition(news.name, news.queries, news.judgements, news.database[1:])
    digests = [gallery_digests(Benchmark("toy", (part,)))["news"] for part in (news, turned, shorter)]
    assert digests[0] == digests[1] != digests[2]
