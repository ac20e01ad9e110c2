"""The answer file: nothing lost by a kill, nothing written twice, mistakes named by their line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import DataError
from muvr_train.rerank.answer_file import AnswerFile, line_of, read_answers
from muvr_train.rerank.types import Answer

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ANSWERS = st.builds(
    Answer,
    question=TEXTS,
    setting=TEXTS,
    key=TEXTS,
    status=st.sampled_from(["answered", "failed"]),
    text=TEXTS,
    reason=TEXTS,
    tokens=st.none() | st.dictionaries(TEXTS, st.floats(-50, 0)),
    seconds=st.none() | st.floats(0, 1e6),
    choices=st.none() | st.dictionaries(st.sampled_from("ABC"), TEXTS),
)


def answer(name: str, text: str = "Yes", status: str = "answered") -> Answer:
    return Answer(name, "images_6f", f"key-{name}", status, text)


def test_answers_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "ä folder" / "answers.jsonl"
    full = Answer(
        "猫/1",
        "s",
        "k",
        "answered",
        "ja\nно\u2028 \x00",
        "",
        {" Yes": -0.25},
        1.5,
        7,
        1,
        choices={"A": "ö"},
        answerer="m",
    )
    with AnswerFile(path) as file:
        file.append(full)
        file.append(answer("b"))
    assert list(read_answers(path)) == [full, answer("b")]
    assert path.read_bytes().count(b"\n") == 2
    with AnswerFile(path) as file:
        assert file.find("k") == full
        assert file.find("nobody") is None
        assert file.answers() == [full, answer("b")]


@given(st.lists(ANSWERS, max_size=5))
def test_any_answer_is_one_line(answers: list[Answer]) -> None:
    lines = [line_of(one) for one in answers]
    assert all("\n" not in line for line in lines)


@given(ANSWERS)
def test_any_answer_is_read_back(tmp_path_factory: pytest.TempPathFactory, one: Answer) -> None:
    path = tmp_path_factory.mktemp("any") / "answers.jsonl"
    path.write_text(line_of(one) + "\n", encoding="utf-8")
    assert list(read_answers(path)) == [one]


@pytest.mark.parametrize("cut", range(1, len(line_of(answer("second"))) + 1))
def test_a_cut_last_line_is_dropped_and_mended(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "answers.jsonl"
    whole = f"{line_of(answer('first'))}\n".encode()
    last = line_of(answer("second")).encode()
    path.write_bytes(whole + last[:cut])
    kept = [answer("first"), *([answer("second")] if cut == len(last) else [])]
    assert list(read_answers(path)) == kept
    with AnswerFile(path) as file:
        file.append(answer("third"))
    assert list(read_answers(path)) == [*kept, answer("third")]


def test_a_line_cut_inside_a_letter_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(f"{line_of(answer('a', '猫'))}\n".encode() + line_of(answer("b", "猫")).encode()[:-4])
    with AnswerFile(path) as file:
        file.append(answer("c"))
    assert [one.question for one in read_answers(path)] == ["a", "c"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json}", "is not JSON"),
        ("[1, 2]", "is no object"),
        ('{"question": "a", "setting": "s", "status": "answered"}', "has no 'key'"),
        ('{"question": 3, "setting": "s", "key": "k", "status": "answered"}', "'question' is a text, here it is 3"),
        ('{"question": "a", "setting": "s", "key": "k", "status": "done"}', "'status' is answered or failed"),
        ('{"question": "a", "setting": "s", "key": "k", "status": "answered", "tokens": {"Yes": "x"}}', "of 'Yes'"),
        ('{"question": "a", "setting": "s", "key": "k", "status": "answered", "text": 1}', "'text' is a text"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f"{line_of(answer('a'))}\n{line}\n{line_of(answer('b'))}\n", encoding="utf-8")
    with pytest.raises(DataError, match=rf"answers\.jsonl:2.*{message}"):
        AnswerFile(path)
    path.write_text(f"{line_of(answer('a'))}\n", encoding="utf-8")
    AnswerFile(path).close()  # the refusal has let go of it


@pytest.mark.parametrize(
    "content",
    [
        b"line one\nmy notes without newline",
        b"my notes without newline",
        b"\n\nmy notes",
        b'{"mine": 1}\n{"question": "a',
        b'{"mine": 1}',
        b'{"mine": [1, 2',
        b'[{"question": "a"},\n {"que',
        b"\xff\xfe\x00binary",
        b'{"question": "a", "setting": "s", "key": "k", "status": "done"}\n{"question": "b',
    ],
)
def test_a_file_that_is_refused_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"notes\.txt"):
        AnswerFile(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("cut", [1, 5, 14, 15, 40])
def test_the_only_line_of_a_killed_run_is_cut_off(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line_of(answer("first")).encode()[:cut])
    with AnswerFile(path) as file:
        file.append(answer("second"))
    assert list(read_answers(path)) == [answer("second")]


def test_the_last_answer_counts_and_no_failure_takes_it_away(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(path) as file:
        file.append(answer("a", "", "failed"))
        assert file.find("key-a") == answer("a", "", "failed")
        file.append(answer("a", "No"))
        file.append(answer("a", "Yes"))
        file.append(answer("a", "", "failed"))
    with AnswerFile(path) as file:
        assert file.find("key-a") == answer("a", "Yes")
        assert file.answers() == [answer("a", "Yes")]


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    with AnswerFile(path), pytest.raises(DataError, match="another run is writing"):
        AnswerFile(path)
    AnswerFile(path).close()


def test_an_empty_file_is_not_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    file = AnswerFile(path)
    file.close()
    file.close()
    assert not path.exists()
    with pytest.raises(DataError, match="cannot be written"):
        file.append(answer("a"))


def test_a_folder_is_no_answer_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be written"):
        AnswerFile(tmp_path)
    with pytest.raises(DataError, match="cannot be read"):
        list(read_answers(tmp_path / "absent"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('"text": null', "'text' is a text, here it is null"),
        ('"text": "a", "key": null', "has no 'key'"),
        ('"text": "a", "seconds": NaN', "'seconds' is a finite number"),
        ('"text": "a", "prompt_tokens": -1', "'prompt_tokens' is a finite number of at least 0"),
    ],
)
def test_values_that_no_answer_has_are_named(tmp_path: Path, more: str, message: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'\n{{"question": "a", "setting": "s", "key": "k", "status": "answered", {more}}}\n')
    with pytest.raises(DataError, match=rf"answers\.jsonl:2.*{message}"):
        list(read_answers(path))


def test_what_is_null_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"question": "a", "setting": "s", "key": "k", "status": "failed", "text": null, "reason": null}')
    assert list(read_answers(path)) == [Answer("a", "s", "k", "failed")]
