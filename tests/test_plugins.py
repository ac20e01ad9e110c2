"""The code of the README and of docs/plugins.md, copied into an empty folder and run from there."""

from __future__ import annotations

import csv
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from torch import nn

from muvr_train.benchmarks.custom import check_benchmark, read_custom
from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.cli import prepare
from muvr_train.errors import ConfigError, DataError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.runner.models import build_retriever
from muvr_train.types import StoreDims
from tests.toy import make_toy
from tests.toy_encoder import write_grey

ROOT = Path(__file__).parents[1]
PAGES = {"head": ROOT / "README.md"} | dict.fromkeys(
    ("network", "loss", "encoder", "benchmark"), ROOT / "docs" / "plugins.md"
)
SMOKE = ["debug=smoke", "benchmark.bootstrap=0", "benchmark.report=false"]


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every code block of a page."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def files() -> dict[str, str]:
    """The files that both pages show, by the name in their first line."""
    shown = [
        body for page in dict.fromkeys(PAGES.values()) for kind, body in blocks(page) if kind in ("python", "yaml")
    ]
    named = {re.match(r"# (\S+)\n", body): body for body in shown}
    assert None not in named
    return {match[1]: body for match, body in named.items()}


def commands() -> list[list[str]]:
    """The commands of both pages."""
    shown = [body for page in dict.fromkeys(PAGES.values()) for kind, body in blocks(page) if kind == "bash"]
    return [shlex.split(line) for body in shown for line in body.splitlines() if "my_" in line]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder with the pages' files."""
    for name, body in files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(body, encoding="utf-8")
    return tmp_path


def run(folder: Path, *words: str, timeout: int = 600) -> str:
    """Run a command in the folder, with this environment's `python`."""
    assert words[0] == "python"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
    done = subprocess.run(
        [sys.executable, *words[1:]], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_the_pages_show_five_plug_ins_of_at_most_thirty_lines() -> None:
    shown = files()
    assert {name for name in shown if name.startswith("my_") and name.endswith(".py")} == {
        f"my_{kind}.py" for kind in PAGES
    }
    for name, body in shown.items():
        lines = [line for line in body.splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) <= 30, name
    assert len([name for name in shown if name.endswith(".yaml")]) == 5


def test_the_shown_tests_pass(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = [command[1] for command in commands() if command[0] == "pytest"]
    assert shown == ["test_my_head.py", "test_my_network.py", "test_my_loss.py"]
    monkeypatch.syspath_prepend(folder)
    for name in shown:
        runpy.run_path(str(folder / name))[name.removesuffix(".py")]()
        sys.modules.pop(name.removesuffix(".py").removeprefix("test_"))


def test_head_network_and_loss_train_together(folder: Path) -> None:
    """One .py and one .yaml each, on a small data set in MUVR's layout, by the real command line."""
    annotations, features = make_toy(folder / "toy")
    data = [f"data.annotations={annotations}", f"data.features={features}", "residency=ram"]
    chosen = ["fusion=text_shift", "model=mapped_chamfer", "loss=margin"]
    words = ["python", "-m", "muvr_train.train", "--config-dir", "my_configs", *chosen, "data=muvr", *data]
    out = run(folder, *words, *[text for text in SMOKE if text != "debug=smoke"], "run=own", *FEW)
    assert "trained" in out
    results = json.loads((folder / "checkpoints" / "own" / "results.json").read_text())
    assert {row["mode"] for row in results["rows"]} >= {"v", "t", "tv"}
    lines = list(csv.DictReader((folder / "checkpoints" / "own" / "metrics.csv").open()))
    assert {"train/loss/margin", "train/loss/infonce"} <= {line["name"] for line in lines}


class Sizes(FusionHead):
    """A head that asks its sizes for more than plain fields, with a list among its settings."""

    def __init__(self, dims: StoreDims, widths: list[int]) -> None:
        super().__init__(dims)
        self.layer = nn.Linear(dims.text_target_dim, sum(widths))
        self.widths = widths


def test_heads_get_the_sizes_of_the_store_and_plain_settings() -> None:
    fusion = OmegaConf.create({"_target_": "tests.test_plugins.Sizes", "widths": [2, 3]})
    dims = StoreDims(regions=1, dim=8, text_dim=4, fine_regions=2, fine_dim=6)
    head = build_retriever({"_target_": "muvr_train.models.chamfer.Chamfer"}, fusion, dims).head
    assert isinstance(head, Sizes)
    assert head.dims == dims
    assert (head.layer.weight.shape, type(head.widths)) == ((5, 6), list)


FEW = ["trainer.max_epochs=1", "trainer.steps_per_epoch=2", "trainer.every_n_epochs=1", "data.batch.topics=2"]
FEW += ["callbacks.log_every_n_steps=1"]
FEW += ["data.batch.positives=1", "data.batch.hard_negatives=1"]


@pytest.mark.slow
def test_the_shown_command_trains_the_head(folder: Path) -> None:
    """On the built-in corpus, as a reader of the README runs it but for debug=smoke; then its checkpoint is scored."""
    (command,) = [words for words in commands() if "fusion=text_shift" in words]
    out = run(folder, *command, *SMOKE)
    assert "tv+tag" in out
    words = ["python", "-m", "muvr_train.evaluate", "ckpt_path=checkpoints/mine/best.ckpt", "out=again"]
    run(folder, *words, *SMOKE[1:])
    trained, again = (json.loads((folder / out / "metrics.json").read_text()) for out in ("checkpoints/mine", "again"))
    assert again == pytest.approx(trained, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["model=mapped_chamfer", "loss=margin"])
def test_the_shown_commands_train_the_network_and_the_loss(folder: Path, choice: str) -> None:
    (command,) = [words for words in commands() if choice in words]
    run(folder, *command, *SMOKE)
    assert (folder / "checkpoints" / choice.split("=")[0].replace("model", "network") / "results.json").is_file()


@pytest.mark.slow
def test_the_shown_command_extracts_with_the_encoder(folder: Path) -> None:
    for name, value in (("a", 40), ("b", 200)):
        write_grey(folder / "clips" / f"{name}.mp4", [value] * 20)
    (command,) = [words for words in commands() if "encoder=colours" in words]
    run(folder, *command)
    manifest = json.loads((folder / "outputs" / "colours" / "manifest.json").read_text())
    assert manifest["encoder"] == "colours"
    assert manifest["streams"]["video"]["dim"] == 48


@pytest.mark.slow
def test_the_shown_commands_train_and_evaluate_on_the_benchmark(folder: Path) -> None:
    annotations, features = make_toy(folder / "toy")
    write_pairs(folder / "labels", read_muvr(annotations))
    train, evaluate = [words for words in commands() if "pairs" in " ".join(words)]
    store = [word.replace("STORE", str(features)) for word in train]
    run(folder, *store, *FEW, *SMOKE[1:])
    run(folder, *evaluate, *SMOKE[1:])
    trained, again = (
        json.loads((folder / name / "results.json").read_text()) for name in ("checkpoints/pairs", "outputs/pairs")
    )
    assert {row["benchmark"] for row in trained["rows"]} == {"pairs"}
    assert [row["metrics"] for row in again["rows"]] == [row["metrics"] for row in trained["rows"]]


def write_pairs(folder: Path, benchmark: Benchmark) -> None:
    folder.mkdir()
    with (folder / "pairs.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["query", "video", "same"])
        for row in benchmark.judgements:
            writer.writerows([row.query, video, 1] for video in row.positives)
            writer.writerows([row.query, video, 0] for video in sorted(row.negatives))


# -- readers of the user's own -------------------------------------------------------------------------------------


def read_toy(path: Path, name: str = "toy", fault: str = "") -> Benchmark:
    """A reader as users write them; `fault` is what is wrong with its benchmark."""
    part = "other" if fault == "partition" else "all"
    queries = tuple(Query(f"all/q{i}", part, f"all/t{i}") for i in (0, 0 if fault == "twice" else 1))
    found = {} if fault == "nothing" else {f"all/{path.name}": "match"}
    judgements = tuple(Judgement(query.id, found) for query in queries)
    if fault == "unjudged":
        judgements = judgements[:1]
    if fault == "unasked":
        judgements = (*judgements, Judgement("all/q7", found))
    database = ("all/v", "all/v") if fault == "database" else ("all/v", "all/w")
    return Benchmark(name, (Partition("all", queries, judgements, database),))


HERE = {"_target_": "tests.test_plugins.read_toy"}


def test_a_reader_gets_the_path_and_its_settings(tmp_path: Path) -> None:
    benchmark = read_custom({**HERE, "name": "pets"}, tmp_path / "v", "pets")
    assert benchmark.judgements[0].positives == {"all/v": "match"}


FAULTS = {
    "twice": r"1 queries that occur twice \(all/q0\)",
    "database": r"database videos of all that occur twice \(all/v\)",
    "unjudged": r"queries of all without a judgement \(all/q1\)",
    "unasked": r"judgements of all for queries that it does not have \(all/q7\)",
    "partition": r"2 queries of all that say they are of another partition",
    "nothing": "no query has a match",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_reader_gets_wrong_is_named(tmp_path: Path, fault: str) -> None:
    with pytest.raises(DataError, match=f"benchmark=toy made a benchmark with faults: .*{FAULTS[fault]}"):
        read_custom({**HERE, "fault": fault}, tmp_path / "v", "toy")


def test_sound_benchmarks_have_no_faults(tmp_path: Path) -> None:
    check_benchmark(read_toy(tmp_path))
    check_benchmark(read_muvr(make_toy(tmp_path)[0]))


def test_readers_that_cannot_work_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gives a str; it must give a Benchmark"):
        read_custom({"_target_": "os.fspath"}, tmp_path, "toy")
    with pytest.raises(ConfigError, match=r"tests.test_plugins.nothing cannot be imported"):
        read_custom({"_target_": "tests.test_plugins.nothing"}, tmp_path, "toy")
    with pytest.raises(ConfigError, match=r"calls its benchmark 'toy', but benchmark.name is 'pets'"):
        read_custom(HERE, tmp_path, "pets")


REFUSED = [
    (
        ["benchmark=pairs"],
        r"data=demo and benchmark=pairs do not go together: my_benchmark.read_pairs is of data=custom",
    ),
    (["data=custom"], r"data=custom needs a benchmark of your own"),
    (["benchmark.name=pears"], r"benchmark.name=pears is not possible: .* or any other name with benchmark.reader"),
    (["data=custom", "benchmark=pairs", "benchmark.name=table"], r"benchmark.name=table comes with this program"),
    (["data=custom", "benchmark=pairs", "benchmark.reader._target_=nowhere.read"], r"there is no module 'nowhere'"),
    (["data=custom", "benchmark=pairs", "benchmark.modes=[x]"], r"benchmark.modes"),
]


@pytest.mark.parametrize(("typed", "message"), REFUSED)
def test_mistakes_are_found_before_anything_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, typed: list[str], message: str
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    more = ["data.annotations=labels", "data.features=store"] if "data=custom" in typed else []
    with pytest.raises(ConfigError, match=message):
        prepare(["--config-dir", "my_configs", *typed, *more], "train")
