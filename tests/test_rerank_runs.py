"""evaluate.py rerank=..., as users run it: on toy data with answerers that look at nothing, and with one that looks."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from muvr_train import cli, runner
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.errors import ConfigError, DataError
from muvr_train.preflight.compose import Composer
from muvr_train.reports.comparison import compare_runs
from muvr_train.reports.runs import read_run
from muvr_train.rerank.answer_file import read_answers
from tests.features.test_copies_extract import write_video
from tests.reference import reranking as slow
from tests.reference.metrics import metrics_of_order
from tests.tagged import make_tagged

ROOT = Path(__file__).parents[1]
K = 5
OWN = """
import os
from pathlib import Path

from muvr_train.rerank.types import Answerer, AnswerError, Clip, Picture, Reply


class Mine(Answerer):
    name = "mine"

    def __init__(self, looks=False, failing=0, says="yes", kill_at=None, concurrency=1):
        self.needs_visuals, self.failing, self.says, self.kill_at = looks, failing, says, kill_at
        self.concurrency, self.asked = concurrency, 0

    def identity(self):
        return {"name": "mine", "says": self.says}

    def answer(self, request):
        self.asked += 1
        if self.asked == self.kill_at:
            os.kill(os.getpid(), 9)
        with Path("asked.txt").open("a") as log:
            log.write(request.question.id + "\\n")
        if self.failing and self.asked % self.failing == 0:
            raise AnswerError("the server is busy")
        if self.says == "logprob":
            return Reply("?", tokens={"Yes": -0.1 * (self.asked % 7 + 1), " no": -1.0}, prompt_tokens=100)
        if not self.needs_visuals:
            return Reply(self.says, seconds=2.0, prompt_tokens=100, completion_tokens=1)
        frames = [part.pixels if isinstance(part, Picture) else part.frames[0] for part in request.parts
                  if not isinstance(part, str)]
        assert len(frames) == 2
        return Reply("Yes" if abs(frames[0].mean() - frames[1].mean()) < 10 else "No.")
"""


class Workplace:
    """A user's folder with toy data, an answerer of the user's own, and evaluate.py in this process or another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations, self.features = make_tagged(folder / "data")
        self.data = ("data=muvr", f"data.annotations={self.annotations}")
        self.model = ("model=frame_max", *self.data, f"data.features={self.features}")
        self.file = (*self.data, "scores=raw/scores_tv.npz")
        (folder / "mine.py").write_text(OWN)
        (folder / "own/answerer").mkdir(parents=True)
        settings = "_target_: mine.Mine\nlooks: false\nfailing: 0\nsays: 'yes'\nkill_at: null\nconcurrency: 1\n"
        (folder / "own/answerer/mine.yaml").write_text(settings)

    def evaluate(self, *arguments: str, quiet: bool = True) -> dict[str, float]:
        more = ("trainer=cpu", *(("benchmark.bootstrap=0", "benchmark.report=false") if quiet else ()))
        texts = [text for text in cli.prepare(["--config-dir", "own", *arguments, *more], "evaluate") if "=" in text]
        cfg = Composer(cli.config_dir(), "evaluate", self.folder / "own").compose(texts)
        cfg = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
        Path(cfg.out).mkdir(parents=True, exist_ok=True)
        return runner.evaluate(cfg)

    def call(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MUVR_TRAIN_CACHE": str(self.folder / "cache")}
        return subprocess.run(
            [sys.executable, str(ROOT / "evaluate.py"), "--config-dir", "own", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def results(self, out: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / out / "results.json").read_text())
        return content

    def lines(self, out: str, model: str, mode: str = "tv") -> dict[str, dict[str, str]]:
        with (self.folder / out / "per_query.csv").open(encoding="utf-8", newline="") as file:
            found = [line for line in csv.DictReader(file) if line["model"] == model and line["mode"] == mode]
        return {line["query"] + line.get("expression", ""): line for line in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    place = Workplace(tmp_path_factory.mktemp("reranking with spaces"))
    with pytest.MonkeyPatch.context() as patch:
        prepared(place, patch)
        place.evaluate(*place.model, "out=raw", "save_scores=true")
    return place


@pytest.fixture
def place(made: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    prepared(made, monkeypatch)
    (made.folder / "asked.txt").unlink(missing_ok=True)
    return made


def prepared(place: Workplace, patch: pytest.MonkeyPatch) -> None:
    patch.chdir(place.folder)
    patch.setenv("MUVR_TRAIN_CACHE", str(place.folder / "cache"))
    patch.setattr(sys, "path", list(sys.path))


def rerank(method: str, answerer: str, *more: str) -> tuple[str, ...]:
    return (f"rerank={method}", f"rerank.top_k={K}", f"answerer={answerer}", "rerank.decision=text", *more)


def metrics(rows: Iterable[dict[str, Any]], mode: str = "tv") -> dict[str, Any]:
    return {row["partition"]: row["metrics"] for row in rows if row["mode"] == mode}


def expected_precisions(place: Workplace, method: str, answers: dict[tuple[str, str], str]) -> dict[str, float]:
    """Average precisions from the saved scores, the annotation and what was answered, by the slow twin."""
    arrays, benchmark = dict(np.load("raw/scores_tv.npz")), read_muvr(place.annotations)
    found = {}
    for partition in benchmark.partitions:
        database = arrays[f"database_ids/{partition.name}"].tolist()
        for query, row in zip(
            arrays[f"query_ids/{partition.name}"].tolist(), arrays[f"scores/{partition.name}"].tolist(), strict=True
        ):
            scores = {video: None if video == query else score for video, score in zip(database, row, strict=True)}
            order = slow.ranking(scores)
            said = {video: answers[query, video] for video in order[:K] if (query, video) in answers}
            if method == "keep_drop":
                order = slow.dropped(order, K, said)
            else:
                order = slow.sorted_by(order, K, {video: float(word == "yes") for video, word in said.items()})
            positives = benchmark.judgement_by_query[query].positives
            labels = [int(video in positives) for video in order]
            found[query] = metrics_of_order(labels, len(positives), ())["AP"]
    return found


def answers_of(out: str) -> dict[tuple[str, str], str]:
    """(query, video) -> text, by the ids of the questions."""
    read = [(answer.question.split("|"), answer) for answer in read_answers(Path(out) / "answers.jsonl")]
    return {(query, video): answer.text for (query, video, _), answer in read if answer.answered}


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


def expected_rows(place: Workplace) -> dict[str, Any]:
    """The raw rows of mode tv; metrics of a score file differ from them by rounding at most."""
    return {name: pytest.approx(row, abs=1e-12) for name, row in metrics(place.results("raw")["rows"]).items()}


def positives_of(place: Workplace, query: str) -> Iterable[str]:
    return read_muvr(place.annotations).judgement_by_query[query].positives


@pytest.mark.parametrize("method", ["keep_drop", "probability"])
def test_a_coin_gives_what_the_slow_twin_gives(place: Workplace, method: str) -> None:
    place.evaluate(*place.file, *rerank(method, "coin", "answerer.seed=3"), f"out=coin-{method}")
    (row, _), answers = place.results(f"coin-{method}")["reranked"], answers_of(f"coin-{method}")
    assert len(answers) == 20 * K
    assert set(answers.values()) == {"yes", "no"}
    lines = place.lines(f"coin-{method}", row["name"])
    expected = expected_precisions(place, method, answers)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)
    assert expected != pytest.approx(expected_precisions(place, method, {}))


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
    flat = place.evaluate(*place.model, "benchmark=muvr_filter", *rerank("keep_drop", "oracle"), "out=tags")
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


def test_failures_keep_their_place_and_are_counted(place: Workplace) -> None:
    """Every third question fails: those pairs stay, the results are complete, and the program ends with an error."""
    failing = rerank("keep_drop", "mine", "answerer.failing=3", "answerer.says=no")
    with pytest.raises(DataError, match=rf"33 of {20 * K} pairs failed.*server is busy.*out=failing asks only these"):
        place.evaluate(*place.file, *failing, "out=failing")
    row = place.results("failing")["reranked"][0]
    assert (row["counts"]["failed"], row["counts"]["used"], row["counts"]["calls"]) == (33, 67, 100)
    answers = answers_of("failing")
    assert len(answers) == 67
    lines = place.lines("failing", row["name"])
    expected = expected_precisions(place, "keep_drop", answers)
    assert {query: float(line["AP"]) for query, line in lines.items()} == pytest.approx(expected, abs=1e-12)
    assert row["cost"] == {
        "pairs_per_query": K,
        "seconds_per_query": pytest.approx(67 * 2.0 / 20, abs=1),  # and what the failed ones took
        "prompt_tokens_per_query": pytest.approx(67 * 100 / 20),
        "completion_tokens_per_query": pytest.approx(67 / 20),
    }
    Path("asked.txt").unlink()
    place.evaluate(*place.file, *failing, "answerer.failing=0", "out=failing", "allow_failures=true")
    again = place.results("failing")["reranked"][0]["counts"]
    assert (again["failed"], again["from_file"], again["calls"]) == (0, 67, 33)
    assert len(Path("asked.txt").read_text().splitlines()) == 33


def test_allowed_failures_are_no_error(place: Workplace) -> None:
    failing = rerank("keep_drop", "mine", "answerer.failing=3")
    place.evaluate(*place.file, *failing, "out=allowed", "allow_failures=true")
    assert place.results("allowed")["reranked"][0]["counts"]["failed"] == 33


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (rerank("keep_drop", "mine", "answerer.failing=1"), "questions all failed"),
        (
            rerank("keep_drop", "mine", "answerer.says=perhaps"),
            "nothing can be reranked: 100 answers say neither yes nor no",
        ),
        (
            ("rerank=probability", f"rerank.top_k={K}", "answerer=mine"),
            "the first 8 answers came without log-probabilities",
        ),
    ],
)
def test_without_a_usable_answer_nothing_is_called_reranked(
    place: Workplace, typed: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=message):
        place.evaluate(*place.file, *typed, "out=nothing", "allow_failures=true")
    content = place.results("nothing")
    assert [row["name"] for row in content["reranked"]] == [f"perfect reranker@{K}"]
    assert metrics(content["rows"]) == expected_rows(place)
    assert any(message in note for note in content["meta"]["notes"])
    shown = capsys.readouterr().out
    assert "+ rerank@" not in shown
    assert message in " ".join(shown.split())
    assert (place.folder / "nothing/metrics.json").is_file()


def test_videos_that_are_missing_are_named_before_anything_is_asked(place: Workplace) -> None:
    videos = place.folder / "some videos/news"
    videos.mkdir(parents=True)
    write_video(videos / "t0q0.mp4", 0, 4)
    looking = (*rerank("keep_drop", "mine", "answerer.looks=true"), f"data.videos={videos.parent}")
    with pytest.raises(DataError, match=r"of 100 questions lack .* files: .*no such file.*allow_failures=true"):
        place.evaluate(*place.file, *looking, "out=missing")
    assert not Path("asked.txt").exists()
    content = place.results("missing")
    assert metrics(content["rows"]) == expected_rows(place), "what was scored is not lost"
    assert [row["name"] for row in content["reranked"]] == [f"perfect reranker@{K}"]
    with pytest.raises(DataError, match=r"the first \d+ questions all failed|100 of 100 pairs failed|nothing can"):
        place.evaluate(*place.file, *looking, "out=missing", "allow_failures=true")


def test_an_answerer_that_looks_sees_the_files(place: Workplace) -> None:
    """The user's own class compares pixels: what it says follows from the files, and the page shows them."""
    videos = place.folder / "videos"
    seeds = {}
    for number, query in enumerate(sorted(read_muvr(place.annotations).video_ids)):
        path = videos / f"{query}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, seeds.setdefault(query, number), 2)
    looking = ("answerer.looks=true", "rerank.frames=2", "rerank.resolution=32", f"data.videos={videos}")
    place.evaluate(*place.file, *rerank("keep_drop", "mine", *looking), "out=looked", quiet=False)
    row = place.results("looked")["reranked"][0]
    assert row["counts"]["used"] == 20 * K
    assert set(answers_of("looked").values()) == {"Yes", "No."}
    page = (place.folder / "looked/reranking/report.html").read_text(encoding="utf-8")
    assert "news/t0q0" in page
    assert list((place.folder / "looked/reranking/report_files").iterdir())
    report = (place.folder / "looked/report.html").read_text(encoding="utf-8")
    assert f"rerank@{K} (mine)" in report
    assert "seconds a query" in report
    for gain in row["gains"]:
        if gain["partition"] != "mean":
            low, high = gain["interval"]
            assert low <= gain["difference"] <= high


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


@pytest.mark.slow
def test_a_killed_run_goes_on_without_asking_twice_and_says_what_failed(place: Workplace) -> None:
    """Real processes: one is killed at its 41st question, the next one asks the other 60, of which two fail."""
    typed = (*place.file, *rerank("keep_drop", "mine"), "out=killed", "benchmark.report=false", "benchmark.bootstrap=0")
    first = place.call(*typed, "answerer.kill_at=41")
    assert first.returncode == -9, first.stderr
    assert metrics(place.results("killed")["rows"]) == expected_rows(place)
    assert place.results("killed")["reranked"] == []
    assert len(list(read_answers(place.folder / "killed/answers.jsonl"))) == 40
    second = place.call(*typed, "answerer.failing=30")
    assert second.returncode == 1, second.stderr
    assert "error: 2 of 100 pairs failed" in second.stderr
    assert "out=killed asks only these" in second.stderr
    asked = Counter((place.folder / "asked.txt").read_text().splitlines())
    assert len(asked) == 20 * K
    assert set(asked.values()) == {1}
    counts = place.results("killed")["reranked"][0]["counts"]
    assert counts == {"pairs": 100, "calls": 60, "from_file": 40, "failed": 2, "invalid": 0, "used": 98}
    for text in (f"scores_tv + rerank@{K} (mine)", f"perfect reranker@{K}", "difference", "calls", "seconds a query"):
        assert text in second.stdout


@pytest.mark.slow
def test_the_built_in_corpus_with_its_own_videos_and_masks(place: Workplace) -> None:
    more = ("model=frame_max", "data.size=tiny", "answerer.looks=true", "benchmark.bootstrap=0", "trainer=cpu")
    done = place.call(*more, *rerank("keep_drop", "mine"), "out=tiny")
    assert done.returncode == 0, done.stderr
    row = place.results("tiny")["reranked"][0]
    assert row["counts"]["used"] == 75 * K
    questions = (place.folder / "tiny/questions.jsonl").read_text(encoding="utf-8")
    assert "outlined" in questions
    by_query = defaultdict(set)
    for query, video in answers_of(str(place.folder / "tiny")):
        by_query[query].add(video)
    assert {len(videos) for videos in by_query.values()} == {K}
