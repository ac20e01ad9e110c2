"""The prepared arguments in Hydra's own hands, in processes of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

Start = Callable[..., Any]
ROOT = Path(__file__).parents[2]

PROGRAM = """
import hydra
from muvr_train import cli, ending, errors

@hydra.main(version_base="1.3", config_path=str(cli.config_dir()), config_name="train")
def main(cfg):
    with ending.reporting():
        from hydra.core.hydra_config import HydraConfig
        print(repr((cfg.run, cfg.seed, cfg.data.videos, HydraConfig.get().runtime.output_dir.rsplit("/", 2)[1:])))
        if cfg.seed == 13:
            raise errors.DataError("clip.mp4: truncated")
        if cfg.seed == 14:
            raise hydra.errors.InstantiationException("Error in call to target") from errors.ConfigError("dim=3: odd")
        if cfg.seed == 15:
            raise ValueError("a fault of the program")

cli.start("train")
main()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A program with the real preflight and configs that says what it was given."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_run_gets_what_was_typed(program: Path, start: Start, tmp_path: Path) -> None:
    name = "it's [a] = b, ü"
    ended = start(program, f"data.videos={name}", "run=mine", "seed=3")
    assert ended.code == 0, ended.err
    assert ended.out == repr(("mine", 3, name, ["checkpoints", "mine"])) + "\n"
    saved = OmegaConf.load(tmp_path / "checkpoints" / "mine" / ".hydra" / "config.yaml")
    assert saved.data.videos == name
    (tmp_path / "checkpoints" / "mine" / "config.yaml").touch()
    refused = start(program, "run=mine")
    assert refused.code == 2
    again = start(program, "resume_from=checkpoints/mine")
    assert again.out == ended.out, again.err


def test_a_sweep_runs_every_value_in_a_folder_of_its_own(program: Path, start: Start) -> None:
    ended = start(program, "seed=1,2", "-m", "run=s")
    assert ended.code == 0, ended.err
    expected = [(f"s_{n}", n + 1, None, ["checkpoints", f"s_{n}"]) for n in (0, 1)]
    assert ended.out == "".join(repr(row) + "\n" for row in expected)


@pytest.mark.parametrize(
    ("seed", "code", "message"), [(13, 1, "error: clip.mp4: truncated"), (14, 2, "error: dim=3: odd")]
)
def test_our_errors_inside_a_run_are_one_message(
    seed: int, code: int, message: str, program: Path, start: Start
) -> None:
    ended = start(program, f"seed={seed}")
    assert (ended.code, ended.err) == (code, message)
    shown = start(program, f"seed={seed}", env={"MUVR_TRAIN_DEBUG": "1"})
    assert shown.code == 1
    assert "Traceback" in shown.err


def test_faults_of_the_program_keep_their_traceback(program: Path, start: Start) -> None:
    ended = start(program, "seed=15")
    assert ended.code == 1
    assert "ValueError: a fault of the program" in ended.err
    assert "Traceback" in ended.err


@pytest.mark.parametrize("name", ["train.py", "evaluate.py"])
def test_hydras_flags_work(name: str, start: Start, tmp_path: Path) -> None:
    model = ["model=frame_max"] if name == "evaluate.py" else []
    shown = start(name, "--cfg", "job", *model, "seed=5")
    assert shown.code == 0, shown.err
    assert OmegaConf.create(shown.out).seed == 5
    for flags in (["--help"], ["--info", "defaults"], ["--version"]):
        ended = start(name, *flags)
        assert ended.code == 0, ended.err
        assert ended.out
    assert "torch" not in shown.imported
    assert list(tmp_path.iterdir()) == []


def test_the_entry_points_are_short() -> None:
    for path in ("train.py", "evaluate.py", "muvr_train/train.py", "muvr_train/evaluate.py"):
        assert len((ROOT / path).read_text().splitlines()) <= 30


def test_too_few_videos_of_a_folder_are_told_before_anything_is_loaded(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.mp4").write_bytes(b"")
    ended = start("evaluate.py", "model=frame_max", "data=folder", f"data.videos={folder}", "benchmark=copies")
    assert ended.code == 1
    assert "3 usable videos give" in ended.err
    assert "Add videos: it takes at least 6" in ended.err
    assert "torch" not in ended.imported
