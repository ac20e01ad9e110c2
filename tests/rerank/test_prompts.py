"""The prompts word by word. A change here asks every question of every user anew: mean it."""

from __future__ import annotations

from pathlib import Path

import pytest

from muvr_train.benchmarks.muvr_qa import read_questions
from muvr_train.errors import DataError
from muvr_train.rerank.prompts import (
    Parts,
    choose_option,
    condition_phrase,
    describe,
    match_by_images,
    match_by_text,
)
from muvr_train.rerank.types import Picture, Visual


def visual(kind: str, name: str) -> Visual:
    def load() -> Picture:
        raise AssertionError("a prompt loads nothing")

    return Visual("video" if kind == "video" else "image", name, load, load)  # type: ignore[arg-type]


QUERY, TARGET, IMAGE = visual("image", "q"), visual("video", "t"), visual("image", "i")
TEXT = "Follow the man [<region>] in red."


def written(parts: Parts) -> str:
    return "\n".join(part if isinstance(part, str) else f"<{part.kind}: {part.name}>" for part in parts)


def test_images_with_region_text_and_tag() -> None:
    assert written(match_by_images(QUERY, TARGET, TEXT, "+aerial view", outlined=True)) == (
        "Decide whether a candidate video is a match for a query. It is a match if it shows the footage, event, "
        "object, place or action that the query is about.\n"
        "\n"
        "The query is a video, of which you see a frame. The marked object is outlined in red.\n"
        "<image: q>\n"
        "Description of the query: Follow the man (the marked object) in red.\n"
        'Condition: The candidate must show "aerial view".\n'
        "\n"
        "The candidate video, frames in order of time:\n"
        "<video: t>\n"
        "Is the candidate video a match for the query, and does it meet the condition? Answer with yes or no only."
    )


def test_images_alone() -> None:
    query = visual("video", "q")
    assert written(match_by_images(query, TARGET, "", "", outlined=False, one_frame=True)) == (
        "Decide whether a candidate video is a match for a query. It is a match if it shows the footage, event, "
        "object, place or action that the query is about.\n"
        "\n"
        "The query is a video, of which you see frames.\n"
        "<video: q>\n"
        "The candidate video, one frame:\n"
        "<video: t>\n"
        "Is the candidate video a match for the query? Answer with yes or no only."
    )


def test_text_alone() -> None:
    assert written(match_by_text(TARGET, TEXT, "")) == (
        "Decide whether a candidate video is a match for a query that is given in words. It is a match if it shows "
        "the footage, event, object, place or action that the query is about.\n"
        "\n"
        "Description of the query: Follow the man in red.\n"
        "\n"
        "The candidate video, frames in order of time:\n"
        "<video: t>\n"
        "Is the candidate video a match for the query? Answer with yes or no only."
    )
    assert 'Description of the query: Follow the man in red.\nCondition: The candidate must not show "night".\n\n' in (
        written(match_by_text(TARGET, TEXT, "-night"))
    )


OPTIONS = {"A": "first from\nthe left", "B": "None appeared"}
ASKED = "Question: When does it appear?\nOptions:\nA. first from the left\nB. None appeared\n"
LETTER = "Answer with the letter of the right option only."


def test_options() -> None:
    question = " When does\n it appear? "
    shown = "The video, frames in order of time:\n<video: t>\n", "The image:\n<image: i>\n"
    assert written(choose_option(question, OPTIONS, TARGET, IMAGE)) == shown[0] + shown[1] + ASKED + LETTER
    first = choose_option(question, OPTIONS, TARGET, IMAGE, image_first=True)
    assert written(first) == shown[1] + shown[0] + ASKED + LETTER
    assert written(choose_option(question, OPTIONS, TARGET, None, image_first=True)) == shown[0] + ASKED + LETTER
    assert choose_option(question, OPTIONS, None, None) == (ASKED + LETTER,)


def test_reasoning() -> None:
    assert choose_option("When does it appear?", OPTIONS, None, None, reasoning=True) == (
        ASKED + 'First reason step by step. Then end with one more line, "Final answer: X", where X is the letter of '
        "the right option.",
    )


@pytest.mark.parametrize(
    ("expression", "phrase"),
    [
        ("+black-and-white", 'The candidate must show "black-and-white".'),
        ("-Lift your arm", 'The candidate must not show "Lift your arm".'),
        ("AND +a -b +c", 'The candidate must show "a" and must not show "b" and must show "c".'),
        ("+a -b", 'The candidate must show "a" and must not show "b".'),
        ("OR -a +b", 'The candidate must not show "a" or must show "b"; one of these is enough.'),
        ("OR +猫", 'The candidate must show "猫".'),
    ],
)
def test_conditions(expression: str, phrase: str) -> None:
    assert condition_phrase(expression) == phrase


def test_conditions_that_cannot_be_read() -> None:
    with pytest.raises(DataError, match="no condition"):
        condition_phrase("night")


def test_all_released_questions_have_a_prompt_without_placeholders(shared: Path) -> None:
    rows = [row for part in read_questions(shared / "data" / "muvr_qa").values() for row in part]
    tagged = 0
    for row in rows:
        for outlined in (True, False):
            text = written(match_by_images(QUERY, TARGET, row.text, row.tag, outlined))
            assert "<region>" not in text
            assert "[" not in text
            assert "\n\n\n" not in text
        assert "the marked object" not in describe(row.text, outlined=False)
        tagged += "Condition: The candidate must " in text
    assert (len(rows), tagged) == (200, 98)
