"""Which lines of a file of answers count: those to what is asked here, of one answerer."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import AnswerFile
from muvr_train.rerank.answerers.from_file import FileAnswers
from muvr_train.rerank.asked_digest import asked_digest
from muvr_train.rerank.asking import ask
from muvr_train.rerank.types import Answer, Question, Reply, Request
from tests.rerank.asked import Recorder, clip_visual, plain, question

Answers = dict[tuple[str, str], Answer]


class Model(Recorder):
    """Says its word and what it was asked; `heat` is a setting of it."""

    def __init__(self, word: str, name: str = "m", heat: int = 0, failing: tuple[str, ...] = ()) -> None:
        super().__init__(failing=failing)
        self.word, self.name, self.heat = word, name, heat

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "heat": self.heat}

    def reply(self, request: Request) -> Reply:
        super().reply(request)
        text = f"{self.word} {request.parts[-1]} {request.question.max_tokens}"
        return Reply(text, {"Yes": -0.5} if request.logprobs else None)


def run(folder: Path, model: Model, questions: Sequence[Question], logprobs: bool = False) -> Answers:
    with AnswerFile(folder / "answers.jsonl") as file:
        return ask(model, questions, file, logprobs)


def again(folder: Path, questions: Sequence[Question], logprobs: bool = False, only: str | None = None) -> Answers:
    with AnswerFile(folder / "again" / "answers.jsonl") as file:
        return ask(FileAnswers(folder / "answers.jsonl", only), questions, file, logprobs)


def said(answers: Answers) -> dict[tuple[str, str], Any]:
    return {place: (one.status, one.text or one.reason, one.tokens, one.answerer) for place, one in answers.items()}


def test_every_run_of_a_file_gets_its_own_answers_back(tmp_path: Path) -> None:
    runs: list[tuple[list[Question], bool]] = [
        ([question(f"q{n}") for n in range(4)], False),
        ([question(f"q{n}", text="And does it meet the condition?") for n in range(4)], False),
        ([question(f"q{n}", max_tokens=2048) for n in range(4)], False),
        ([Question(f"q{n}", "images_2f", ("Which?",), ("A", "B"), "A", about=options) for n in range(4)], False),
        ([Question(f"q{n}", "images_2f", ("Which?",), ("A", "B"), "A", about=turned) for n in range(4)], False),
        ([question(f"q{n}", setting="images_3f") for n in range(4)], False),
        ([question(f"q{n}") for n in range(4)], True),
    ]
    model = Model("yes", failing=("q2",))
    first = [run(tmp_path, model, questions, logprobs) for questions, logprobs in runs]
    for (questions, logprobs), before in zip(runs, first, strict=True):
        found = again(tmp_path, questions, logprobs)
        assert said(found) == said(before)
        assert [found[place].seconds for place in found if found[place].answered] == [
            one.seconds for one in before.values() if one.answered
        ]


options = {"options": {"A": "one", "B": "two"}}
turned = {"options": {"A": "two", "B": "one"}}


def test_the_same_with_log_probabilities_does_as_well_and_without_them_it_does_not(tmp_path: Path) -> None:
    questions = [question("q0"), question("q1")]
    first = run(tmp_path, Model("yes"), questions[:1], logprobs=True)
    run(tmp_path, Model("no"), questions[1:])
    assert said({("q0", "images_2f"): again(tmp_path, questions)["q0", "images_2f"]}) == said(first)
    found = plain(again(tmp_path, questions, logprobs=True))
    assert found["q0", "images_2f"][0] == "answered"
    assert found["q1", "images_2f"][0] == "failed"
    assert "to another prompt" in found["q1", "images_2f"][1]


def test_answers_to_something_else_are_none(tmp_path: Path) -> None:
    run(tmp_path, Model("yes"), [question("a"), question("b", text="Another prompt?")])
    found = plain(again(tmp_path, [question("a"), question("b"), question("c")]))
    assert found["a", "images_2f"] == ("answered", "yes Does it match? 16")
    assert found["b", "images_2f"][0] == "failed"
    assert found["b", "images_2f"][1].startswith("the file's answers to it are to another prompt")
    assert found["c", "images_2f"] == ("failed", "not in the file")
    with pytest.raises(DataError, match=r"b \(images_2f\), as all others: the file's answers to it are to another"):
        again(tmp_path, [question("b")])


def test_lines_made_elsewhere_count_where_nothing_says_that_it_was_asked_so(tmp_path: Path) -> None:
    run(tmp_path, Model("yes"), [question("a"), question("b", text="Another prompt?")])
    with (tmp_path / "answers.jsonl").open("a", encoding="utf-8") as file:
        for name in "ab":
            file.write(json.dumps({"question": name, "text": "by hand"}) + "\n")
    found = plain(again(tmp_path, [question("a"), question("b")]))
    assert found["a", "images_2f"] == ("answered", "yes Does it match? 16")
    assert found["b", "images_2f"] == ("answered", "by hand")


def test_two_models_are_told_apart_by_name(tmp_path: Path) -> None:
    questions = [question(f"q{n}") for n in range(3)]
    first = run(tmp_path, Model("yes", "m/one"), questions)
    second = run(tmp_path, Model("no", "m-2", failing=("q1",)), questions)
    with pytest.raises(
        DataError, match=r"different answers to q0 .*m/one: 3, m-2: 2\. Choose with answerer\.only=NAME"
    ):
        again(tmp_path, questions)
    with pytest.raises(DataError, match=r"different answers to q1"):  # answered by one, failed by the other
        again(tmp_path, questions[1:])
    assert said(again(tmp_path, questions, only="m/one")) == said(first)
    assert said(again(tmp_path, questions, only="m-2")) == said(second)
    with pytest.raises(DataError, match=r"answerer\.only=m: .*answers\.jsonl has answers of m-2, m/one"):
        again(tmp_path, questions, only="m")
    with pytest.raises(ConfigError, match=r"answerer\.only must be"):
        FileAnswers(tmp_path / "answers.jsonl", only=2)  # type: ignore[arg-type]


def test_two_settings_of_a_model_are_told_apart_by_their_digest(tmp_path: Path) -> None:
    questions = [question(f"q{n}") for n in range(2)]
    first = run(tmp_path, Model("yes"), questions)
    second = run(tmp_path, Model("no", heat=1), questions)
    with pytest.raises(DataError, match=r"m \(by id[0-9a-f]+\): 2, m \(by id[0-9a-f]+\): 2\. Choose"):
        again(tmp_path, questions)
    for answers in (first, second):
        by = {one.by for one in answers.values()}
        assert said(again(tmp_path, questions, only=by.pop())) == said(answers)
        assert not by


def test_runs_with_other_numbers_of_candidates_are_told_apart_too(tmp_path: Path) -> None:
    few, many = Model("yes"), Model("no")
    few.top_logprobs, many.top_logprobs = 2, 20
    first, second = (run(tmp_path, model, [question("q")], logprobs=True) for model in (few, many))
    with pytest.raises(DataError, match=r"m \(by id[0-9a-f]+\): 1, m \(by id[0-9a-f]+\): 1\. Choose"):
        again(tmp_path, [question("q")], logprobs=True)
    for answers in (first, second):
        (one,) = answers.values()
        assert said(again(tmp_path, [question("q")], logprobs=True, only=one.by)) == said(answers)


def test_times_of_failures_are_kept(tmp_path: Path) -> None:
    first = run(tmp_path, Model("yes", failing=("q",)), [question("q"), question("r")])["q", "images_2f"]
    assert first.seconds is not None
    assert again(tmp_path, [question("q"), question("r")])["q", "images_2f"].seconds == first.seconds


def test_a_file_of_other_orders_is_refused_even_if_one_happens_to_fit(tmp_path: Path) -> None:
    def ordered(name: str, options: dict[str, str]) -> Question:
        return Question(name, "after_32f", ("Which?",), ("A", "B"), "A", about={"options": options})

    one, other = {"A": "ein", "B": "zwei"}, {"A": "zwei", "B": "ein"}
    run(tmp_path, Model("A"), [ordered(f"q{n}", one) for n in range(3)])
    with pytest.raises(DataError, match=r"q[01] is to the choices .*benchmark\.seed"):
        again(tmp_path, [ordered("q0", other), ordered("q1", other), ordered("q2", one)])
    found = again(tmp_path, [ordered("q0", other), ordered("q1", one), ordered("q2", one)])
    assert [answer.status for answer in found.values()] == ["failed", "answered", "answered"]


def test_a_model_that_never_answered_is_no_rival_and_equal_answers_are_no_conflict(tmp_path: Path) -> None:
    questions = [question(f"q{n}") for n in range(2)]
    run(tmp_path, Model("yes", heat=3, failing=("q0", "q1")), questions)
    first = run(tmp_path, Model("yes"), questions)
    run(tmp_path, Model("yes", heat=4), questions)
    assert said(again(tmp_path, questions)) == said(first)


def test_answers_about_other_pixels_are_named_by_their_lines(tmp_path: Path) -> None:
    run(tmp_path, Model("yes"), [question("q")])
    run(tmp_path, Model("no"), [question("q", visual=clip_visual("q", value=9))])
    with pytest.raises(DataError, match=r"which was shown other files .*answers\.jsonl:1 and .*answers\.jsonl:2"):
        again(tmp_path, [question("q")])


def test_an_answer_outlives_a_later_failure_of_the_same_question(tmp_path: Path) -> None:
    first = run(tmp_path, Model("yes"), [question("q")])
    with (tmp_path / "answers.jsonl").open("a", encoding="utf-8") as file:
        (one,) = first.values()
        failed = {**asdict(one), "status": "failed", "text": "", "reason": "HTTP 500"}
        file.write(json.dumps(failed) + "\n" + json.dumps({**failed, "key": ""}) + "\n")
    assert said(again(tmp_path, [question("q")])) == said(first)


def lettered(name: str) -> Question:
    return Question(name, "s", ("Which?",), ("A", "B"), "A", about=options)


def test_letters_without_their_options_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = [
        {"question": "a", "text": "A"},
        {"question": "b", "text": "B", "choices": options["options"]},
        {"question": "c", "setting": "s", "text": "B", "asked": asked_digest(lettered("c"), False)},
        {"question": "d", "text": "B"},
    ]
    (tmp_path / "answers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        found = again(tmp_path, [lettered(name) for name in "abcd"])
    assert all(one.answered for one in found.values())
    assert "2 of 4 answers have no 'choices'" in caplog.text


def test_unknown_times_stay_unknown(tmp_path: Path) -> None:
    lines = [{"question": "a", "text": "yes"}, {"question": "b", "text": "yes", "seconds": 2}]
    (tmp_path / "answers.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    found = again(tmp_path, [question("a"), question("b"), question("c")])
    assert [one.seconds for one in found.values()] == [None, 2.0, None]


def test_a_text_that_is_null_is_a_failure(tmp_path: Path) -> None:
    run(tmp_path, Model("yes"), [question("q")])
    path = tmp_path / "answers.jsonl"
    line = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(f"\n{json.dumps({**line, 'text': None})}\n", encoding="utf-8")
    found = plain(again(tmp_path, [question("q")]))
    assert found == {("q", "images_2f"): ("failed", "its text in the file is null")}


def test_answers_of_another_setting_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"question": "q", "setting": "after_8f", "text": "yes"})
    with pytest.raises(DataError, match="its answers are for setting after_8f, this run asks images_2f"):
        again(tmp_path, [question("q")])


def test_lines_about_nothing_and_several_answers_are_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [{"question": name, "text": text} for name, text in (("q", "yes"), ("x", "no"), ("y", "no"), ("q", "no"))]
    write(tmp_path, *lines)
    found = plain(again(tmp_path, [question("q")]))
    assert found == {("q", "images_2f"): ("answered", "no")}
    assert "2 of 4 lines are about no question here: x, y" in caplog.text
    assert "several answers to 1 of the questions, the last counts: q (images_2f)" in caplog.text


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_json_array_is_refused(tmp_path: Path, end: str) -> None:
    text = json.dumps([{"question": "q", "text": "yes"}]) + end
    (tmp_path / "answers.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match="is a JSON array: JSONL is needed"):
        again(tmp_path, [question("q")])


def write(folder: Path, *lines: dict[str, Any]) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "answers.jsonl").write_text(text, encoding="utf-8")
