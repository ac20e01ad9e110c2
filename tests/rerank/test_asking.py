"""Asking: every question once, never too many at a time, and nothing lost whatever stops it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answer_file import AnswerFile, read_answers
from muvr_train.rerank.asking import ask
from muvr_train.rerank.replies import NoAnswerError
from muvr_train.rerank.types import AnswerError, Clip, Question, Reply, Request, Visual
from tests.rerank.asked import Recorder, clip_visual, plain, question, texts


@pytest.mark.parametrize("visuals", [True, False])
@pytest.mark.parametrize("concurrency", [1, 5])
def test_all_are_asked_once_and_kept(tmp_path: Path, concurrency: int, visuals: bool) -> None:
    path, questions = tmp_path / "answers.jsonl", [question(f"q{n}") for n in range(20)]
    one = Recorder(concurrency, needs_visuals=visuals)
    with AnswerFile(path) as file:
        found = ask(one, questions, file)
    assert list(found) == [(q.id, q.setting) for q in questions]
    assert plain(found) == {(q.id, "images_2f"): ("answered", f"Yes, {q.id}.") for q in questions}
    assert sorted(one.asked) == sorted(q.id for q in questions)
    again = Recorder(concurrency, needs_visuals=visuals)
    with AnswerFile(path) as file:
        assert ask(again, questions, file) == found
    assert again.asked == []
    assert len(texts(path)) == 20


def test_no_question_is_no_work(tmp_path: Path) -> None:
    for concurrency in (1, 4):
        with AnswerFile(tmp_path / "answers.jsonl") as file:
            assert ask(Recorder(concurrency), [], file) == {}


def test_the_answerer_sees_texts_and_pixels_in_order(tmp_path: Path) -> None:
    asked = Question("q", "s", ("before", clip_visual("v", 7, frames=3), "after"), ("A", "B"), "A", 5)
    one, blind = Recorder(), Recorder(needs_visuals=False)
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        ask(one, [asked], file, logprobs=True)
        ask(blind, [asked], file)
    first, clip, last = one.requests[0].parts
    assert (first, last) == ("before", "after")
    assert isinstance(clip, Clip)
    assert len(clip.frames) == 3
    assert np.all(clip.frames[0] == 7)
    assert one.requests[0].logprobs
    assert blind.requests[0].parts == ("before", "after")
    assert not blind.requests[0].logprobs


class Meeting(Recorder):
    """Waits until as many are asked at once as it allows, and would see one too many."""

    def __init__(self, concurrency: int) -> None:
        super().__init__(concurrency)
        self.barrier = threading.Barrier(concurrency)

    def reply(self, request: Request) -> Reply:
        self.barrier.wait(timeout=30)
        return super().reply(request)


@pytest.mark.parametrize("concurrency", [2, 7])
def test_as_many_are_asked_at_once_as_allowed_and_never_more(tmp_path: Path, concurrency: int) -> None:
    one = Meeting(concurrency)
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        ask(one, [question(f"q{n}") for n in range(6 * concurrency)], file)
    assert one.most == concurrency


def test_the_next_ones_are_decoded_while_one_is_asked_and_no_more(tmp_path: Path) -> None:
    loaded: list[str] = []
    changed = threading.Condition()

    def visual(name: str) -> Visual:
        def load() -> Clip:
            with changed:
                loaded.append(name)
                changed.notify_all()
            return Clip((np.zeros((2, 2, 3), np.uint8),))

        return Visual("video", name, lambda: name, load)

    class Slow(Recorder):
        def reply(self, request: Request) -> Reply:
            place = int(request.question.id)
            with changed:
                assert changed.wait_for(lambda: len(loaded) >= min(place + 3, 10), timeout=30)
                assert len(loaded) <= place + 3
            return super().reply(request)

    questions = [question(str(n), visual=visual(str(n))) for n in range(10)]
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        found = ask(Slow(), questions, file)
    assert all(answer.answered for answer in found.values())
    assert loaded == [q.id for q in questions]


def test_failures_are_kept_and_asked_again(tmp_path: Path) -> None:
    path, questions = tmp_path / "answers.jsonl", [question(f"q{n}") for n in range(10)]
    with AnswerFile(path) as file:
        found = ask(Recorder(3, failing=("q2", "q5")), questions, file)
    assert plain(found)["q2", "images_2f"] == ("failed", "server says no to q2")
    assert sum(answer.answered for answer in found.values()) == 8
    again = Recorder(3)
    with AnswerFile(path) as file:
        assert all(answer.answered for answer in ask(again, questions, file).values())
    assert sorted(again.asked) == ["q2", "q5"]


def test_what_cannot_be_shown_is_a_failure_of_that_question_only(tmp_path: Path) -> None:
    def broken() -> Clip:
        raise DataError("b.mp4: broken at 3.5 s")

    lost = [question(f"m{n}", visual=clip_visual(f"m{n}", missing=True)) for n in range(30)]
    bad = question("b", visual=Visual("video", "b", lambda: "b", broken))
    for concurrency in (1, 4):
        one = Recorder(concurrency)
        with AnswerFile(tmp_path / f"{concurrency}.jsonl") as file:
            found = plain(ask(one, [*lost, bad, question("good")], file))
        assert found["m0", "images_2f"] == ("failed", "m0.mp4: there is no such file")
        assert found["b", "images_2f"] == ("failed", "b.mp4: broken at 3.5 s")
        assert one.asked == ["good"]


def test_without_visuals_no_file_is_looked_for(tmp_path: Path) -> None:
    lost = question("m", visual=clip_visual("m", missing=True))
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        assert ask(Recorder(needs_visuals=False), [lost], file)["m", "images_2f"].answered


@pytest.mark.parametrize("concurrency", [1, 6])
def test_a_first_stretch_of_failures_stops_the_run(tmp_path: Path, concurrency: int) -> None:
    names = tuple(f"q{n}" for n in range(100))
    one, path = Recorder(concurrency, failing=names), tmp_path / "answers.jsonl"
    stretch = max(8, 2 * concurrency)
    with (
        AnswerFile(path) as file,
        pytest.raises(DataError, match=rf"first {stretch} questions all failed.*server says no.*0 answers are kept in"),
    ):
        ask(one, [question(name) for name in names], file)
    assert stretch <= len(one.asked) < stretch + concurrency


def test_one_answer_is_enough_to_go_on(tmp_path: Path) -> None:
    names = tuple(f"q{n}" for n in range(100))
    one = Recorder(failing=names[:7] + names[8:])
    with AnswerFile(tmp_path / "answers.jsonl") as file:
        found = ask(one, [question(name) for name in names], file)
    assert [name for (name, _), answer in found.items() if answer.answered] == ["q7"]


def test_no_answer_in_a_file_is_no_sign_that_the_rest_fails(tmp_path: Path) -> None:
    class Sparse(Recorder):
        def reply(self, request: Request) -> Reply:
            raise NoAnswerError("not in the file")

    with AnswerFile(tmp_path / "answers.jsonl") as file:
        found = ask(Sparse(), [question(f"q{n}") for n in range(30)], file)
    assert {answer.reason for answer in found.values()} == {"not in the file"}


@pytest.mark.parametrize("concurrency", [1, 5])
def test_answers_without_the_log_probabilities_that_are_wanted_stop_the_run(tmp_path: Path, concurrency: int) -> None:
    questions, one = [question(f"q{n}") for n in range(60)], Recorder(concurrency)
    with AnswerFile(tmp_path / "a.jsonl") as file, pytest.raises(DataError, match=r"without log-probabilities.*kept"):
        ask(one, questions, file, logprobs=True)
    assert len(one.asked) < max(8, 2 * concurrency) + concurrency

    class Some(Recorder):
        def reply(self, request: Request) -> Reply:
            return Reply("Yes", {"Yes": -0.1} if request.question.id == "q3" else None)

    with AnswerFile(tmp_path / "b.jsonl") as file:
        assert len(ask(Some(), questions, file, logprobs=True)) == 60


class Raising(Recorder):
    """Raises at one question."""

    def __init__(self, error: Exception, concurrency: int = 1, at: str = "q12") -> None:
        super().__init__(concurrency)
        self.error, self.at = error, at

    def reply(self, request: Request) -> Reply:
        if request.question.id == self.at:
            raise self.error
        return super().reply(request)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (AnswerError("401 wrong key", fatal=True), "recorder can answer nothing: 401 wrong key"),
        (ZeroDivisionError("half"), r"Raising fails at question q12 \(images_2f\): .*ZeroDivisionError: half"),
    ],
)
def test_what_no_retry_mends_stops_the_run_and_answers_are_kept(
    tmp_path: Path, concurrency: int, error: Exception, message: str
) -> None:
    path, questions = tmp_path / "answers.jsonl", [question(f"q{n}") for n in range(60)]
    with AnswerFile(path) as file, pytest.raises(DataError, match=message) as caught:
        ask(Raising(error, concurrency), questions, file)
    assert f"answers are kept in {path}: the same command with out={tmp_path} asks only the rest" in str(caught.value)
    kept = {answer.question for answer in read_answers(path)}
    assert len({f"q{n}" for n in range(12)} - kept) < concurrency
    again = Recorder(concurrency)
    with AnswerFile(path) as file:
        assert all(answer.answered for answer in ask(again, questions, file).values())
    assert kept.isdisjoint(again.asked)
    assert len(kept) + len(again.asked) == 60


def test_a_mistake_in_the_settings_stays_one(tmp_path: Path) -> None:
    with AnswerFile(tmp_path / "a.jsonl") as file, pytest.raises(ConfigError, match="no such option"):
        ask(Raising(ConfigError("no such option")), [question("q12")], file)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_ctrl_c_ends_at_once_and_keeps_what_was_answered(tmp_path: Path, concurrency: int) -> None:
    path, questions = tmp_path / "answers.jsonl", [question(f"q{n}") for n in range(40)]
    held = threading.Event()

    class Interrupted(Recorder):
        def reply(self, request: Request) -> Reply:
            if request.question.id == "q20":
                raise KeyboardInterrupt
            if concurrency > 1 and int(request.question.id[1:]) > 20:
                held.wait(timeout=60)  # a server that does not answer
            return super().reply(request)

    with AnswerFile(path) as file, pytest.raises(KeyboardInterrupt):
        ask(Interrupted(concurrency), questions, file)
    held.set()
    kept = {answer.question for answer in read_answers(path)}
    assert len({f"q{n}" for n in range(20)} - kept) < concurrency
    again = Recorder()
    with AnswerFile(path) as file:
        ask(again, questions, file)
    assert sorted(again.asked) == sorted({q.id for q in questions} - kept)


@pytest.mark.parametrize("given_reply", ["Yes", None, Reply(3)])  # type: ignore[arg-type]
def test_an_answer_must_be_a_reply(tmp_path: Path, given_reply: Reply) -> None:
    class Strange(Recorder):
        def reply(self, request: Request) -> Reply:
            return given_reply

    with AnswerFile(tmp_path / "a.jsonl") as file, pytest.raises(DataError, match=r"Strange\.answer must give a Reply"):
        ask(Strange(), [question("q")], file)


def test_odd_replies_are_kept(tmp_path: Path) -> None:
    class Odd(Recorder):
        def reply(self, request: Request) -> Reply:
            if request.question.id == "nan":
                return Reply("Yes", {"Yes": float("nan")})
            return Reply("\ud800yes", {" Yes": -np.inf, "No": np.float32(-0.5)}, np.int64(3), seconds=7.0)  # type: ignore[arg-type]

    path = tmp_path / "a.jsonl"
    with AnswerFile(path) as file:
        found = ask(Odd(), [question("q"), question("nan")], file)
    one = found["q", "images_2f"]
    assert (one.text, one.tokens) == ("\ufffdyes", {" Yes": -9999.0, "No": -0.5})
    assert (one.prompt_tokens, one.seconds) == (3, 7.0)
    assert plain(found)["nan", "images_2f"] == ("failed", "the log-probabilities are no finite numbers")
    assert list(read_answers(path)) == list(found.values())


def test_other_prompts_frames_models_lengths_and_choices_are_asked_anew(tmp_path: Path) -> None:
    class Other(Recorder):
        def identity(self) -> dict[str, str]:
            return {"name": "other"}

    base = question("q")
    others = [
        question("q", text="Is it the same?"),
        question("q", visual=clip_visual("q", frames=3)),
        question("q", visual=clip_visual("q", value=9)),
        question("q", max_tokens=99),
        question("q", setting="images_3f"),
        Question("q", "images_2f", base.parts, ("no", "yes"), "yes"),
    ]
    one = Recorder()
    with AnswerFile(tmp_path / "a.jsonl") as file:
        ask(one, [base], file)
        for other in others:
            ask(one, [other], file)
        assert len(one.asked) == 1 + len(others)
        ask(one, [base], file, logprobs=True)
        assert len(one.asked) == 2 + len(others)
        another = Other()
        ask(another, [base], file)
        assert another.asked == ["q"]
        for known in (base, *others):
            ask(one, [known], file)
        assert len(one.asked) == 2 + len(others)


def test_two_questions_of_one_place_are_refused(tmp_path: Path) -> None:
    with AnswerFile(tmp_path / "a.jsonl") as file, pytest.raises(ValueError, match="same id and setting"):
        ask(Recorder(), [question("q"), question("q")], file)


def test_an_identity_must_be_plain(tmp_path: Path) -> None:
    class Odd(Recorder):
        def identity(self) -> dict[str, object]:
            return {"model": object()}

    with AnswerFile(tmp_path / "a.jsonl") as file, pytest.raises(DataError, match=r"Odd\.identity\(\) must give texts"):
        ask(Odd(), [question("q")], file)


@pytest.mark.parametrize("method", ["begin", "identity"])
def test_a_fault_outside_of_answers_is_named(tmp_path: Path, method: str) -> None:
    def fails(*_: object) -> None:
        raise KeyError("vocabulary")

    odd = type("Odd", (Recorder,), {method: fails})()
    with (
        AnswerFile(tmp_path / "a.jsonl") as file,
        pytest.raises(DataError, match=rf"Odd\.{method} fails: .*test_asking.py, line \d+: KeyError: 'vocabulary'"),
    ):
        ask(odd, [question("q")], file)


@settings(max_examples=25)
@given(st.data())
def test_after_any_number_of_partial_runs_all_are_asked_once(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("runs") / "answers.jsonl"
    questions = [question(f"q{n}") for n in range(data.draw(st.integers(1, 15)))]
    asked: list[str] = []
    for _ in range(data.draw(st.integers(0, 4))):
        stop = f"q{data.draw(st.integers(0, 14))}"
        one = Raising(RuntimeError("killed"), data.draw(st.sampled_from([1, 3])), at=stop)
        part = data.draw(st.permutations(questions))
        with AnswerFile(path) as file:
            try:
                ask(one, part, file)
            except DataError:
                assert stop in one.asked
        with path.open("ab") as raw:
            raw.write(data.draw(st.sampled_from([b"", b'{"question": "q', b'{"question": "\xe7\x8c'])))
        asked += [answer.question for answer in read_answers(path) if answer.question not in asked]
    last = Recorder(data.draw(st.sampled_from([1, 4])))
    with AnswerFile(path) as file:
        found = ask(last, questions, file)
    assert set(found) == {(q.id, q.setting) for q in questions}
    assert sorted(asked + last.asked) == sorted(q.id for q in questions)
    assert len(list(read_answers(path))) == len(questions)
