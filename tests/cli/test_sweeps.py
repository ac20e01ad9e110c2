"""Grids of experiments: the files of experiment/, `-m`, and the Weights & Biases sweep."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import yaml

from muvr_train import cli
from muvr_train.errors import ConfigError
from muvr_train.preflight.compose import Composer
from tests.cli.conftest import ROOT, Start

HEADS = sorted(path.stem for path in (ROOT / "configs" / "fusion").glob("*.yaml"))
EXPERIMENTS = sorted(path.stem for path in (ROOT / "configs" / "experiment").glob("[!_]*.yaml"))
GRID = "experiment=glob(fusion_*)"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_head_has_an_experiment() -> None:
    composer = Composer(ROOT / "configs", "train")
    for head in HEADS:
        cfg = composer.compose([f"experiment=fusion_{head}"])
        assert cfg.hydra.runtime.choices.fusion == head
        assert (cfg.data.batch.tag_rows, cfg.data.regions) == (1, True)
        assert all(share > 0 for share in cfg.data.part_dropout.values())
        assert "tags" in {loss["on"] for loss in cfg.loss.losses.values()}


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_passes_the_checks(experiment: str) -> None:
    more = {"s2vs_self_supervised": ["data.videos=."], "dns_distilled": ["teacher=teacher.ckpt"]}.get(experiment, [])
    Path("teacher.ckpt").touch()
    prepared = cli.prepare([f"experiment={experiment}", *more], "train")
    assert prepared[0] == f"experiment={experiment}"


def test_the_distilled_experiment_asks_for_its_teacher() -> None:
    with pytest.raises(ConfigError, match="teacher=checkpoints/NAME"):
        cli.prepare(["experiment=dns_distilled"], "train")


def test_runs_of_a_grid_are_named_by_their_experiments() -> None:
    name = r"run='\$\{hydra:runtime\.choices\.experiment\}-[\d_-]+_\$\{hydra:job\.num\}'"
    *typed, run = cli.prepare(["-m", GRID, "debug=smoke"], "train")
    assert typed == ["-m", GRID, "debug=smoke"]
    assert re.fullmatch(name, run)
    assert re.fullmatch(name, cli.prepare(["-m", "experiment=fusion_mean,fusion_gated"], "train")[-1])
    one = cli.prepare(["-m", "experiment=fusion_mean", "optimizer.lr=1e-3,1e-4"], "train")[-1]
    assert re.fullmatch(r"run='fusion_mean-[\d_-]+_\$\{hydra:job\.num\}'", one)


def test_names_of_the_users_own_are_kept() -> None:
    own = "run='grid/${hydra:runtime.choices.experiment}'"
    two = "experiment=fusion_mean,fusion_gated"
    assert cli.prepare(["-m", two, own], "train")[-1] == own
    assert cli.prepare(["-m", two, "run=grid"], "train")[-1] == "run='grid_${hydra:job.num}'"


@pytest.mark.parametrize("setting", ["experiment=glob(fuison_*)", "data=glob(nothing)"])
def test_a_glob_without_a_match_is_a_mistake(setting: str) -> None:
    with pytest.raises(ConfigError, match="no option has such a name"):
        cli.prepare(["-m", setting], "train")


def commands_of_the_sweep() -> list[list[str]]:
    """What W&B's agent would run, by its own code, for all combinations."""
    utils = pytest.importorskip("wandb.sdk.launch.sweeps.utils")
    sweep = yaml.safe_load((ROOT / "sweeps" / "fusion.yaml").read_text())
    names, choices = list(sweep["parameters"]), [node["values"] for node in sweep["parameters"].values()]
    commands = []
    for values in itertools.product(*choices):
        given = {name: {"value": value} for name, value in zip(names, values, strict=True)}
        parts = utils.create_sweep_command_args({"args": given})
        parts |= {"env": ["/usr/bin/env"], "interpreter": ["python"], "program": [sweep["program"]]}
        command = []
        for word in utils.create_sweep_command(sweep["command"]):
            command += parts[word[2:-1]] if word.startswith("${") else [word]
        commands.append(command)
    return commands


def test_commands_of_the_wandb_sweep_are_command_lines_of_train() -> None:
    commands = commands_of_the_sweep()
    assert {command[3].removeprefix("experiment=fusion_") for command in commands} == set(HEADS)
    assert commands[0] == ["/usr/bin/env", "python", "train.py", "experiment=fusion_mean", "seed=0"]
    for command in commands[::13]:
        assert cli.prepare(command[3:], "train")[:2] == command[3:]


def test_the_sweep_looks_at_a_metric_that_is_logged() -> None:
    sweep = yaml.safe_load((ROOT / "sweeps" / "fusion.yaml").read_text())
    cli.prepare([f"trainer.monitor={sweep['metric']['name']}"], "train")
    with pytest.raises(ConfigError, match=r"trainer\.monitor"):
        cli.prepare([f"trainer.monitor={sweep['metric']['name']}s"], "train")


QUICK = ["debug=smoke", "trainer.max_epochs=1", "trainer.steps_per_epoch=1", "benchmark.bootstrap=0"]
QUICK += ["benchmark.report=false", "benchmark.modes=[tv]"]


@pytest.mark.slow
def test_a_grid_writes_one_folder_for_each_experiment(start: Start, tmp_path: Path) -> None:
    ended = start("train.py", "-m", "experiment=glob(fusion_m*)", *QUICK, timeout=600)
    assert ended.code == 0, ended.err[-2000:]
    folders = sorted((tmp_path / "checkpoints").glob("fusion_*/results.json"))
    assert [re.sub(r"-\d{4}-.*", "", path.parent.name) for path in folders] == ["fusion_map_channel", "fusion_mean"]


@pytest.mark.slow
def test_a_command_of_the_wandb_sweep_trains(start: Start, tmp_path: Path) -> None:
    command = commands_of_the_sweep()[-1]
    ended = start(command[2], *command[3:], *QUICK, "run=s", env={"WANDB_MODE": "offline"}, timeout=600)
    assert ended.code == 0, ended.err[-2000:]
    assert (tmp_path / "checkpoints" / "s" / "results.json").is_file()
