"""Questions of IV-Bench: lettered options in an order that never changes, settings, truths, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muvr_train.benchmarks.iv_bench import IvBench, read_iv_bench
from muvr_train.errors import ConfigError
from muvr_train.rerank.iv_questions import IvSettings, iv_questions
from muvr_train.rerank.types import Question, Visual
from muvr_train.rerank.visuals import Media

ENTRY = {
    "data_id": 3,
    "image_name": "vid_3_image.png",
    "question": "When does it appear?",
    "question_type": "Keyframe extraction",
    "granularity": "Video Clip",
    "answer": "00:10-00:12",
    "answer_location": "00:10-00:12",
    "distractors": ["00:20-00:22", "00:30-00:32", "never"],
}


def bench(path: Path, *entries: dict[str, object]) -> IvBench:
    lines = [json.dumps({"vid": [{**ENTRY, "data_id": number, **entry}]}) for number, entry in enumerate(entries)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_iv_bench(path)


@pytest.fixture
def one(tmp_path: Path) -> IvBench:
    return bench(tmp_path / "one.jsonl", {})


def visuals(question: Question) -> list[tuple[str, str]]:
    return [(part.kind, part.name) for part in question.parts if isinstance(part, Visual)]


def test_a_question(one: IvBench) -> None:
    (question,) = iv_questions(one, Media(), IvSettings())
    assert (question.id, question.setting, question.max_tokens) == ("vid/0", "after_32f", 64)
    assert question.choices == ("A", "B", "C", "D")
    assert question.about["options"][question.truth] == "00:10-00:12"
    assert question.about["right"] == (question.truth,)
    assert set(question.about["options"].values()) == {"00:10-00:12", *ENTRY["distractors"]}
    assert visuals(question) == [("video", "vid"), ("image", "vid_3_image.png")]
    shown = str(question.parts[-1]).splitlines()
    assert shown[2:6] == [f"{letter}. {text}" for letter, text in question.about["options"].items()]
    facts = {name: question.about[name] for name in ("benchmark", "task", "group", "video", "image", "question")}
    assert facts == {
        "benchmark": "iv_bench",
        "task": "Keyframe extraction",
        "group": "perception",
        "video": "vid",
        "image": "vid_3_image.png",
        "question": "When does it appear?",
    }


def test_settings_and_what_they_show(one: IvBench) -> None:
    def found(settings: IvSettings) -> dict[str, list[tuple[str, str]]]:
        return {question.setting: visuals(question) for question in iv_questions(one, Media(), settings)}

    video, image = ("video", "vid"), ("image", "vid_3_image.png")
    assert found(IvSettings(image_position="before")) == {"before_32f": [image, video]}
    assert found(IvSettings(image="none")) == {"no_image_32f": [video]}
    assert found(IvSettings(image="none", video=False, frames=(8, 32), resolution=(224, 448))) == {"text_only": []}
    names = ("after_8f", "after_8f_448px", "after_32f", "after_32f_448px")
    assert found(IvSettings(frames=(8, 32), resolution=(None, 448))) == {name: [video, image] for name in names}


def test_the_order_of_options_is_the_same_in_every_setting(tmp_path: Path) -> None:
    items = bench(tmp_path / "many.jsonl", *[{"question": f"{number}?"} for number in range(40)])
    found = iv_questions(items, Media(), IvSettings(frames=(8, 32)))
    orders = [tuple(question.about["options"].values()) for question in found]
    assert orders[:40] == orders[40:]
    assert len(set(orders)) > 10  # and not in every question
    others = iv_questions(items, Media(), IvSettings(seed=1))
    assert [tuple(question.about["options"].values()) for question in others] != orders[:40]
    assert {question.truth for question in found} == {"A", "B", "C", "D"}


def test_reasoning_gets_room(one: IvBench) -> None:
    (question,) = iv_questions(one, Media(), IvSettings(reasoning=True))
    assert question.max_tokens == 2048
    assert '"Final answer: X"' in str(question.parts[-1])
    assert iv_questions(one, Media(), IvSettings(reasoning=True, max_tokens=100))[0].max_tokens == 100


def test_options_that_stand_twice(tmp_path: Path) -> None:
    items = bench(tmp_path / "twice.jsonl", {"distractors": ["never", "00:10-00:12 ", "never", "00:30-00:32"]})
    (dropped,) = iv_questions(items, Media(), IvSettings())
    assert sorted(dropped.about["options"].values()) == ["00:10-00:12", "00:30-00:32", "never"]
    assert dropped.about["right"] == (dropped.truth,)
    (kept,) = iv_questions(items, Media(), IvSettings(duplicates="keep"))
    options = kept.about["options"]
    assert sorted(options.values()) == ["00:10-00:12", "00:10-00:12 ", "00:30-00:32", "never", "never"]
    assert kept.about["right"][0] == kept.truth
    assert set(kept.about["right"]) == {letter for letter, text in options.items() if text.strip() == "00:10-00:12"}


def test_settings_that_cannot_be() -> None:
    for settings, what in (
        ({"image_position": "left"}, "image_position=left"),
        ({"image": "yes"}, "image=yes"),
        ({"duplicates": "some"}, "duplicates=some"),
        ({"video": False}, "video=false .* image=none"),
        ({"frames": ("8",)}, "frames must be"),
        ({"resolution": ()}, "resolution must be"),
        ({"max_tokens": 0}, "max_tokens must be"),
    ):
        with pytest.raises(ConfigError, match=what):
            IvSettings(**settings)  # type: ignore[arg-type]


def test_all_released_questions(shared: Path) -> None:
    items = read_iv_bench(shared / "data" / "iv_bench" / "test_data.jsonl")
    found = iv_questions(items, Media(), IvSettings(duplicates="keep"))
    assert len(found) == len({question.id for question in found}) == 1686
    assert sum(question.choices == tuple("ABCDEFGHIJ") for question in found) == 1597
    assert all(question.about["options"][question.truth] for question in found)
    assert sum(len(question.about["right"]) > 1 for question in found) == 29  # case and outer spaces ignored
    share = sum(question.truth == "A" for question in found) / len(found)
    assert 0.07 < share < 0.13
