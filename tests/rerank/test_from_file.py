"""Answers of a file: matched by question and setting, guarded against other options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from muvr_train.errors import DataError
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.answerers.from_file import FileAnswers
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answer, Question
from tests.rerank.asked import Recorder, plain, question

OPTIONS = {"A": "ein", "B": "zwei"}


def lettered(name: str = "v/1", setting: str = "after_32f") -> Question:
    return Question(name, setting, ("Which?",), ("A", "B"), "B", about={"options": OPTIONS})


def answers(folder: Path, lines: list[dict[str, Any]], questions: list[Question]) -> dict[tuple[str, str], Answer]:
    path = folder / "made elsewhere.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    answerer = FileAnswers(path)
    answerer.prepare()
    with AnswerFile(folder / "answers.jsonl") as file:
        return ask(answerer, questions, file)


def test_lines_are_matched_by_question_and_setting(tmp_path: Path) -> None:
    lines = [
        {"question": "猫", "text": "yes"},
        {"question": "猫", "setting": "s2", "text": "no"},
        {"question": "b", "setting": "s2", "text": "Yes."},
    ]
    asked = [question(name, setting) for name in ("猫", "b") for setting in ("s1", "s2")]
    assert plain(answers(tmp_path, lines, asked)) == {
        ("猫", "s1"): ("answered", "yes"),
        ("猫", "s2"): ("answered", "no"),
        ("b", "s1"): ("failed", "not in the file"),
        ("b", "s2"): ("answered", "Yes."),
    }


def test_the_last_answer_counts_and_a_failure_only_without_any(tmp_path: Path) -> None:
    lines = [
        {"question": "a", "text": "no"},
        {"question": "a", "text": "yes"},
        {"question": "a", "status": "failed", "reason": "HTTP 500"},
        {"question": "b", "status": "failed", "reason": "HTTP 500"},
        {"question": "c", "status": "failed", "reason": "HTTP 500"},
        {"question": "c", "status": "answered", "text": ""},
    ]
    found = plain(answers(tmp_path, [*lines[:5], {**lines[5], "key": "k"}], [question(name) for name in "abc"]))
    assert found["a", "images_2f"] == ("answered", "yes")
    assert found["b", "images_2f"] == ("failed", "HTTP 500")
    assert found["c", "images_2f"] == ("answered", "")


def test_what_else_a_line_knows_is_kept(tmp_path: Path) -> None:
    line = {"question": "v/1", "text": "B", "tokens": {" B": -0.5}, "seconds": 2.5, "prompt_tokens": 9, "answerer": "m"}
    (found,) = answers(tmp_path, [line], [lettered()]).values()
    assert (found.tokens, found.seconds, found.prompt_tokens, found.answerer) == ({" B": -0.5}, 2.5, 9, "m")
    assert found.choices == OPTIONS


@pytest.mark.parametrize("choices", [OPTIONS, ["A", "B"], None])
def test_the_same_choices_are_accepted(tmp_path: Path, choices: Any) -> None:
    (found,) = answers(tmp_path, [{"question": "v/1", "text": "B", "choices": choices}], [lettered()]).values()
    assert found.text == "B"


@pytest.mark.parametrize("choices", [{"A": "zwei", "B": "ein"}, {"A": "ein"}, ["A", "B", "C"]])
def test_answers_to_other_choices_are_refused(tmp_path: Path, choices: Any) -> None:
    with pytest.raises(DataError, match=r"the answer to v/1 is to the choices .* here they are .*benchmark\.seed"):
        answers(tmp_path, [{"question": "v/1", "text": "B", "choices": choices}], [lettered()])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": "yes"}, "has no 'question'"),
        ({"question": "a"}, "has no 'text'"),
        ({"question": "a", "text": 3}, "'text' is a text"),
        ({"question": "a", "text": "yes", "choices": "AB"}, "'choices' is an object"),
        ({"question": "other", "text": "yes"}, "has no answer to any of the 1 questions"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, line: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        answers(tmp_path, [line], [question("a")])


def test_answers_of_a_run_are_such_a_file(tmp_path: Path) -> None:
    asked = [question(f"q{n}") for n in range(5)]
    with AnswerFile(tmp_path / "first.jsonl") as file:
        first = ask(Recorder(failing=("q3",)), asked, file)
    again = FileAnswers(tmp_path / "first.jsonl")
    again.prepare()
    with AnswerFile(tmp_path / "second.jsonl") as file:
        second = ask(again, asked, file)
    assert plain(second) == plain(first)
    assert all(second[place].seconds == one.seconds for place, one in first.items() if one.answered)
    assert again.name == "recorder"
