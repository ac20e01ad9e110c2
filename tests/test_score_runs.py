"""evaluate.py scores=..., save_scores=true and the hard-case miner, as users run them, on toy data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from muvr_train import mine
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.muvr_qa import read_qa
from muvr_train.errors import DataError
from muvr_train.runner.score_run import refuse_strangers
from muvr_train.search.file_scores import FileScores
from muvr_train.search.score_files import read_scores
from tests import in_process
from tests.toy import make_toy

ROOT = Path(__file__).parents[1]
QUIET = ("trainer=cpu", "benchmark.bootstrap=0", "benchmark.report=false")


class Workplace:
    """A user's folder with toy data, the scores of two untrained models, and the programs, run in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.annotations, self.features = make_toy(folder / "data")
        self.data = ("data=muvr", f"data.annotations={self.annotations}")
        features = f"data.features={self.features}"
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setenv("MUVR_TRAIN_CACHE", str(folder / "cache"))
            self.evaluate("model=frame_max", *self.data, features, "out=max", "save_scores=true")
            self.evaluate("model=mean_pool", *self.data, features, "out=pool", "save_scores=true")

    def evaluate(self, *arguments: str) -> dict[str, float]:
        return in_process.evaluate(*arguments, *QUIET)

    def results(self, out: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / out / "results.json").read_text())
        return content


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(tmp_path_factory.mktemp("work place"))


@pytest.fixture
def place(made: Workplace, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.chdir(made.folder)
    return made


def metrics(results: dict[str, Any], mode: str) -> dict[str, Any]:
    return {row["partition"]: row["metrics"] for row in results["rows"] if row["mode"] == mode}


@pytest.mark.parametrize("mode", ["v", "t", "tv"])
def test_saved_scores_give_the_same_metrics_without_features(place: Workplace, mode: str) -> None:
    place.evaluate(*place.data, f"scores=max/scores_{mode}.npz", f"out=again-{mode}")
    again, first = place.results(f"again-{mode}"), place.results("max")
    assert set(metrics(again, mode)) == {"news", "dance", "mean"}
    for partition, values in metrics(again, mode).items():
        assert values == pytest.approx(metrics(first, mode)[partition], abs=1e-9)
    meta = again["meta"]
    assert meta["model"] == f"scores_{mode}"
    assert meta["store"] is None
    (file,) = meta["scores"]
    assert (file["mode"], file["unknown_queries"], file["unknown_database"]) == (mode, 0, 0)
    assert len(file["sha256"]) == 64


def test_several_files_and_their_fusions(place: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    flat = place.evaluate(*place.data, "scores=[max/scores_tv.npz,pool/scores_v.npz]", "out=both", "save_scores=true")
    both = place.results("both")
    rows = {row["name"]: row["rows"] for row in both["baselines"]}
    assert list(rows) == ["scores_tv", "scores_v", "fusion: mean", "fusion: reciprocal_rank"]
    assert both["meta"]["model"] == "fusion: z_mean"
    assert {row["mode"] for row in both["rows"]} == {"tv+v"}
    assert rows["scores_tv"][-1]["metrics"] == pytest.approx(metrics(place.results("max"), "tv")["mean"])
    assert rows["scores_v"][-1]["metrics"] == pytest.approx(metrics(place.results("pool"), "v")["mean"])
    assert flat["all/muvr_base/tv+v/mean/mAP"] == metrics(both, "tv+v")["mean"]["mAP"]
    table = capsys.readouterr().out
    assert "best by mAP" in table
    for label in (*rows, "fusion: z_mean"):
        assert label in table
    place.evaluate(*place.data, "scores=both/scores_tv+v.npz", "out=fused-again")
    for partition, values in metrics(place.results("fused-again"), "tv+v").items():
        assert values == pytest.approx(metrics(both, "tv+v")[partition], abs=1e-9)


def test_files_of_one_name_and_one_fusion(place: Workplace) -> None:
    place.evaluate(*place.data, "scores=[max/scores_v.npz,pool/scores_v.npz]", "fuse=mean", "out=one")
    one = place.results("one")
    assert [row["name"] for row in one["baselines"]] == ["max/scores_v", "pool/scores_v"]
    assert one["meta"]["model"] == "fusion: mean"


def test_a_file_with_more_and_one_with_less(place: Workplace, caplog: pytest.LogCaptureFixture) -> None:
    arrays = dict(np.load("max/scores_v.npz"))
    database = arrays["database_ids/news"]
    np.savez("less.npz", **{**arrays, "database_ids/news": database[1:], "scores/news": arrays["scores/news"][:, 1:]})
    with pytest.raises(DataError, match=rf"less.npz lacks scores.*\n1 database videos without a column: {database[0]}"):
        place.evaluate(*place.data, "scores=less.npz", "out=less")
    place.evaluate(*place.data, "scores=less.npz", "on_missing=official", "out=less")
    assert place.results("less")["rows"][-1]["counts"]["missing_database"] == 1
    caplog.clear()
    place.evaluate(*place.data, "scores=max/scores_v.npz", "benchmark.split=test", "out=part")
    assert "are not of muvr_base (test) and are left out" in caplog.text
    assert place.results("part")["meta"]["scores"][0]["unknown_queries"] == 16  # of 20


def test_files_of_unlike_parts_have_no_winner(place: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = dict(np.load("pool/scores_v.npz"))
    queries = arrays["query_ids/news"]
    np.savez("few.npz", **{**arrays, "query_ids/news": queries[1:], "scores/news": arrays["scores/news"][1:]})
    typed = ("scores=[max/scores_v.npz,few.npz]", "on_missing=official", "out=unlike")
    place.evaluate(*place.data, *typed)
    said = " ".join(capsys.readouterr().out.split())
    assert "best by mAP" not in said
    assert "other queries or database videos than each other in news (scores_v 10 x 40, few 9 x 40)" in said
    assert any("no best one is named" in note for note in place.results("unlike")["meta"]["notes"])


def test_exchanged_ids_are_refused_whatever_may_be_missing(place: Workplace) -> None:
    arrays = dict(np.load("max/scores_v.npz"))
    for part in ("news", "dance"):
        queries, database = arrays[f"query_ids/{part}"], arrays[f"database_ids/{part}"]
        arrays[f"query_ids/{part}"], arrays[f"database_ids/{part}"] = database, queries
        arrays[f"scores/{part}"] = arrays[f"scores/{part}"].T
    np.savez("turned.npz", **arrays)
    for more in ((), ("on_missing=official",), ("on_missing=official", "benchmark.split=test")):
        with pytest.raises(DataError, match=r"turned\.npz: query_ids and database_ids seem to be swapped"):
            place.evaluate(*place.data, "scores=turned.npz", "out=turned", *more)


def test_other_scores_than_the_built_in_corpus_need_their_data(place: Workplace) -> None:
    corpus = read_muvr(place.annotations)
    files = [FileScores(read_scores(Path(f"max/scores_{mode}.npz"))) for mode in ("v", "t")]
    refuse_strangers(files, corpus)
    np.savez("other.npz", query_ids=["a", "b"], database_ids=["c"], scores=np.zeros((2, 1)))
    with pytest.raises(
        DataError, match=r"other\.npz .* add data=muvr data\.annotations=FOLDER .* Its queries are a, b"
    ):
        refuse_strangers([*files, FileScores(read_scores(Path("other.npz")))], corpus)


def mined(out: Path) -> dict[str, list[Any]]:
    return {path.stem: read_qa(path) for path in out.glob("*.jsonl")}


def test_hard_cases_of_a_run(place: Workplace) -> None:
    mine.main(["pool", "--mode", "v", "--threshold", "0.9", "--pairs", "3", "--out", "hard"])
    found = mined(Path("hard"))
    assert set(found) == {"news", "dance"}
    assert all(len(rows) == 6 for rows in found.values())
    for rows in found.values():
        assert [row.label for row in rows] == [1, 0] * 3
        for true, false in zip(rows[::2], rows[1::2], strict=True):
            assert (true.query, true.text, true.tag) == (false.query, false.text, "")
            topic = true.query[: true.query.index("q")]
            assert true.target.startswith(f"{topic}m")
            assert not false.target.startswith(f"{topic}m")
            assert true.text == f"find topic {topic[1:]}"
    mine.main(["--scores", "pool/scores_v.npz", "--annotations", str(place.annotations), "--threshold", "0.9"])
    every = mined(Path("pool/hard_cases_v"))
    assert {name: rows[:6] for name, rows in every.items()} == found


def test_no_hard_case(place: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    mine.main(["max", "--threshold", "1e-9"])
    assert "no queries are below 1e-09" in capsys.readouterr().out
    assert not Path("max/hard_cases_tv").exists()
    mine.main(["pool", "--mode", "v", "--threshold", "0.9", "--out", "was"])
    mine.main(["max", "--threshold", "1e-9", "--out", "was"])
    assert "no queries are below 1e-09: no file is written" in capsys.readouterr().out
    assert mined(Path("was")) == {}


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "give RUN"),
        (["max", "--scores", "x", "--annotations", "y"], 2, "give RUN"),
        (["--scores", "x"], 2, "--annotations DIR"),
        (["max", "--mode", "w"], 2, "--mode w: max holds t, tv, v"),
        (["data"], 2, "save_scores=true"),
        (["nothere"], 2, "nothere: there is no such folder"),
        (["--scores", "no.npz", "--annotations", "data"], 1, "no such score file"),
        (["max", "--threshold", "0"], 2, "above 0"),
        (["max", "--pairs", "0"], 2, "1 or more"),
    ],
)
def test_mistakes_of_the_miner(
    place: Workplace, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        mine.main(arguments)
    assert ended.value.code == code
    assert says in capsys.readouterr().err


def test_a_run_without_results(place: Workplace, capsys: pytest.CaptureFixture[str]) -> None:
    Path("lost").mkdir()
    (Path("lost") / "scores_v.npz").write_bytes(Path("max/scores_v.npz").read_bytes())
    for content in (None, "{}", '{"meta": {"config": {}, "protocol": {"split": "all"}}}', "["):
        if content is not None:
            (Path("lost") / "results.json").write_text(content)
        with pytest.raises(SystemExit) as ended:
            mine.main(["lost"])
        assert ended.value.code == 1
        assert "lost/results.json is missing or is no results file" in capsys.readouterr().err


def test_a_broken_file_ends_with_one_line_and_exit_code_1(place: Workplace) -> None:
    Path("text.npz").write_text("query,score\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "evaluate.py"), *place.data, "scores=text.npz", "out=broken"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: text.npz: it is no score file")
    assert "Traceback" not in done.stderr
    assert not Path("broken").exists()
