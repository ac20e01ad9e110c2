"""The example of docs/mllm.md, copied into an empty folder and run from there, and the settings of its commands."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from muvr_train.cli import prepare
from tests.test_plugins import ROOT, blocks, run

PAGE = ROOT / "docs" / "mllm.md"


def commands() -> list[list[str]]:
    """The commands of the page without `...`; NAME is a reference."""
    lines = re.findall(r"^(?: {4})?python evaluate\.py (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    whole = [line.replace("answerer=NAME", "answerer=coin") for line in lines if "..." not in line]
    return [shlex.split(line, comments=True) for line in whole]


def test_the_own_answerer_of_the_page(tmp_path: Path) -> None:
    shown = {body.split()[1]: body for kind, body in blocks(PAGE) if kind in ("python", "yaml")}
    assert set(shown) == {"my_answerer.py", "my_configs/answerer/mine.yaml"}
    lines = [line for line in shown["my_answerer.py"].splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= 20
    for name, body in shown.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(body, encoding="utf-8")
    (command,) = [body for kind, body in blocks(PAGE) if kind == "bash"]
    out = run(tmp_path, *shlex.split(command))
    assert "same_colours" in out
    folder = tmp_path / "outputs" / "mine"
    rows = {row["partition"]: row for row in json.loads((folder / "results.json").read_text("utf-8"))["rows"]}
    assert rows["all"]["counts"]["questions"] == 20
    assert rows["all"]["metrics"]["parse_rate"] == 1
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text("utf-8").splitlines()]
    assert {answer["text"] for answer in answers} == {"Yes.", "No."}
    assert len(list((folder / "report_files").iterdir())) > 20
    run(tmp_path, *shlex.split(command))
    assert len((folder / "answers.jsonl").read_text("utf-8").splitlines()) == 20, "asked again"


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_the_settings_of_the_commands_are_sound(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("QA", "VIDEOS", "MASKS", "IMAGES", "FOLDER"):
        (tmp_path / name).mkdir()
    for name in ("test_data.jsonl", "answers.jsonl"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert prepare(words, "evaluate")
