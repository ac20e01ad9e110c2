from __future__ import annotations

from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from muvr_train.preflight.quoting import quote_override, quote_value, split_override


def read_back(text: str) -> object:
    """What Hydra and OmegaConf make of one setting."""
    (override,) = OverridesParser.create().parse_overrides([text])
    assert not override.is_sweep_override()
    return OmegaConf.create({"key": override.value()}).key


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
@example("a=b")
@example("[x], {y: z} (1)")
@example('it\'s "quoted"')
@example("back\\slash\\")
@example("\\'")
@example("${x}")
@example("\\${x}\\")
@example("$\\{")
@example("Küche 视频 🎬")
@example(" spaces ")
@example("null")
@example("1e3")
@example("choice(a,b)")
def test_any_string_comes_back_as_typed(value: str) -> None:
    assert read_back(f"key={quote_value(value)}") == value


@pytest.mark.parametrize(
    "name", ["a=b", "[1,2]", "x, y", "(c) d", "it's", '"q"', "'q'", "ü 视频", "${run}", "a:b", "~x"]
)
@pytest.mark.parametrize("prefix", ["", "+", "++"])
def test_an_existing_file_is_always_meant_literally(
    name: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    for multirun in (False, True):
        assert read_back(quote_override(f"{prefix}data.videos={name}", multirun)) == name


@pytest.mark.parametrize(
    "text",
    [
        "model.dim=[1,2]",
        "data.videos=null",
        "data.videos=",
        "out='a b'",
        'out="a b"',
        "run=x_${hydra:job.num}",
        "~run",
        "run",
    ],
)
def test_the_grammar_of_hydra_is_left_alone_where_it_is_meant(text: str) -> None:
    assert quote_override(text) == text


def test_commas_are_a_sweep_only_with_multirun() -> None:
    assert quote_override("data.features=a b,c=d") == "data.features='a b,c=d'"
    assert quote_override("data.features=a b,c=d", multirun=True) == "data.features='a b','c=d'"


@pytest.mark.parametrize("multirun", [False, True])
def test_a_list_of_score_files(multirun: bool) -> None:
    text = quote_override("scores=[a b.npz, c=d/(e).npz,'f.npz']", multirun)
    assert read_back(text) == ["a b.npz", "c=d/(e).npz", "f.npz"]
    assert read_back(quote_override("scores=[]", multirun)) == []
    assert quote_override("scores=x/[a].npz") == "scores='x/[a].npz'"


def test_the_home_folder_is_found_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert read_back(quote_override("data.videos=~/clips")) == "/somewhere/clips"


def test_split_keeps_everything_after_the_first_equals() -> None:
    assert split_override("+a.b=c=d") == ("+", "a.b", "c=d")
    assert split_override("~a") == ("~", "a", None)
