"""Mistakes in classes of the user's own, and in how a config names them: one line that says where."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.runner.classes import build, check_classes
from muvr_train.types import StoreDims

DIMS = StoreDims(regions=1, dim=8, text_dim=8)
HEAD = """from muvr_train.models.fusion.base import FusionHead


class TextShift(FusionHead):
    def __init__(self, dims, hidden=64, *, depth):
        super().__init__(dims)
        if hidden < 1:
            raise ValueError("hidden is small")
"""
GOOD = {"_target_": "own_head.TextShift", "depth": 1}

MISTAKES = {
    "syntax": (HEAD + "    def x(self:\n", GOOD, r"own_head.py, line 9: SyntaxError: .*: def x\(self:"),
    "import": ("import nosuchmodule\n" + HEAD, GOOD, r"own_head.py, line 1: ModuleNotFoundError: .*'nosuchmodule'"),
    "fails": ("x = 1 / 0\n" + HEAD, GOOD, r"own_head.py, line 1: ZeroDivisionError"),
    "class": (HEAD, {"_target_": "own_head.TextShft"}, r"own_head has no 'TextShft'; did you mean 'TextShift'"),
    "module": (HEAD, {"_target_": "own_heat.TextShift"}, r"there is no module 'own_heat'"),
    "method": (HEAD, {"_target_": "own_head.TextShift.make"}, r"there is no module 'own_head.TextShift'"),
    "argument": (HEAD, {**GOOD, "hiden": 3}, r"fusion.hiden: TextShift has no such argument; did you mean 'hidden'\?"),
    "missing": (HEAD, {"_target_": "own_head.TextShift"}, r"fusion.depth: TextShift needs this .* \+fusion.depth="),
    "foreign": (HEAD, {"_target_": "collections.OrderedDict"}, r"collections.OrderedDict is no FusionHead"),
    "no class": (HEAD, {"hidden": 3}, r"fusion names no class: add fusion._target_="),
    "in it": (HEAD, {**GOOD, "hidden": 0}, r"own_head.py, line 8: ValueError: hidden is small"),
    "inner": (HEAD, {**GOOD, "hidden": {"_target_": "own_head.Nope"}}, r"fusion.hidden._target_: .* has no 'Nope'"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_head", raising=False)
    return tmp_path


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(folder: Path, name: str) -> None:
    code, node, message = MISTAKES[name]
    (folder / "own_head.py").write_text(code)
    with pytest.raises(ConfigError, match=message) as caught:
        build(node, "fusion", FusionHead, dims=DIMS)
    assert "\n" not in str(caught.value)


def test_a_class_must_take_what_the_program_gives(folder: Path) -> None:
    (folder / "own_head.py").write_text(HEAD.replace("dims, hidden", "hidden"))
    with pytest.raises(ConfigError, match=r"TextShift must take an argument 'dims'"):
        build(GOOD, "fusion", FusionHead, dims=DIMS)


def test_sound_classes_functions_and_methods_are_built(folder: Path) -> None:
    (folder / "own_head.py").write_text(
        HEAD + "    @classmethod\n    def make(cls, **more):\n        return cls(**more)\n\n\n"
        "def deep(dims):\n    return TextShift(dims, depth=3)\n"
    )
    for node in (GOOD, {"_target_": "own_head.deep"}, {"_target_": "own_head.TextShift.make", "depth": 1}):
        assert type(build(node, "fusion", FusionHead, dims=DIMS)).__name__ == "TextShift"
    check_classes({"_target_": "builtins.dict", "anything": 1}, "callbacks.x")
