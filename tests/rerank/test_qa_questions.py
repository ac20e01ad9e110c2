"""Questions of MUVR-QA and of reranking: ids, settings, truths, facts, and what is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from muvr_train.benchmarks.muvr_qa import QaPair, QaRow, pair_rows, read_questions
from muvr_train.benchmarks.types import Query
from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.pair_questions import PairSettings, pair_question
from muvr_train.rerank.qa_questions import QaSettings, qa_questions
from muvr_train.rerank.types import Question, Visual
from muvr_train.rerank.visuals import Media
from tests.reference.rle import encode_counts

TRUE = QaRow("BV1", "BV2", 1, "A dog [<region>] runs.", "+snow", where="news.jsonl:1")
FALSE = QaRow("BV1", "BV3", 0, "A dog [<region>] runs.", "+snow", where="news.jsonl:2")
PAIRS = {"news": [QaPair("news", TRUE, FALSE)]}


@pytest.fixture
def media(tmp_path: Path) -> Media:
    mask = np.ones((4, 6), bool)
    (tmp_path / "masks" / "news").mkdir(parents=True)
    content = {"size": [4, 6], "counts": encode_counts(mask)}
    (tmp_path / "masks" / "news" / "BV1.json").write_text(json.dumps(content))
    videos = {f"news/BV{number}": tmp_path / f"{number}.mp4" for number in (1, 2, 3)}
    return Media(videos, None, tmp_path / "masks")


def texts(question: Question) -> str:
    return "\n".join(part for part in question.parts if isinstance(part, str))


def visuals(question: Question) -> list[tuple[str, str]]:
    return [(part.kind, part.name) for part in question.parts if isinstance(part, Visual)]


def test_a_pair_is_two_questions(media: Media) -> None:
    true, false = qa_questions(PAIRS, media, QaSettings())
    assert true.id == "news/BV1 [+snow] > BV2"
    assert (true.setting, true.choices, true.truth, true.max_tokens) == ("images_6f", ("yes", "no"), "yes", 64)
    assert (false.id, false.truth) == ("news/BV1 [+snow] > BV3", "no")
    assert visuals(true) == [("image", "news/BV1"), ("video", "news/BV2")]
    assert visuals(false) == [("image", "news/BV1"), ("video", "news/BV3")]
    assert true.about == {
        "benchmark": "muvr_qa",
        "partition": "news",
        "query": "BV1",
        "target": "BV2",
        "tag": "+snow",
        "text": "A dog [<region>] runs.",
        "label": 1,
        "pair": PAIRS["news"][0].id,
        "outlined": True,
    }
    assert false.about["pair"] == true.about["pair"]
    assert "A dog (the marked object) runs." in texts(true)
    assert 'must show "snow"' in texts(true)
    assert texts(true) == texts(false)  # nothing in the words tells which one is right


def test_without_masks_nothing_is_outlined(media: Media) -> None:
    true, _ = qa_questions(PAIRS, Media(media.videos), QaSettings())
    assert true.about["outlined"] is False
    assert "A dog runs." in texts(true)
    assert "outlined" not in texts(true)


def test_text_comparison_shows_the_target_alone(media: Media) -> None:
    true, _ = qa_questions(PAIRS, media, QaSettings("text", frames=(12,)))
    assert true.setting == "text_12f"
    assert visuals(true) == [("video", "news/BV2")]
    assert "A dog runs." in texts(true)


def test_every_number_of_frames_with_every_resolution(media: Media) -> None:
    found = qa_questions(PAIRS, media, QaSettings(frames=(1, 6, 1), resolution=(None, 448)))
    names = ["images_1f", "images_1f_448px", "images_6f", "images_6f_448px"]
    assert [question.setting for question in found] == [name for name in names for _ in range(2)]
    assert len({(question.id, question.setting) for question in found}) == 8
    assert "one frame:" in texts(found[0])
    assert "frames in order of time:" in texts(found[4])


def test_tags_can_be_left_out(media: Media) -> None:
    true, _ = qa_questions(PAIRS, media, QaSettings(tags=False))
    assert "ondition" not in texts(true)
    assert (true.id, true.about["tag"]) == ("news/BV1 [+snow] > BV2", "+snow")


def test_several_query_frames(media: Media) -> None:
    true, _ = qa_questions(PAIRS, media, QaSettings(query_frames=3))
    assert visuals(true)[0] == ("video", "news/BV1")


def test_settings_that_cannot_be() -> None:
    for settings, what in (
        ({"comparison": "pictures"}, "comparison=pictures"),
        ({"frames": (0,)}, "frames must be"),
        ({"frames": ()}, "frames must be .* empty list"),
        ({"frames": (6, True)}, "frames must be"),
        ({"resolution": (448.0,)}, "resolution must be .* or null"),
        ({"query_frames": None}, "query_frames must be"),
        ({"max_tokens": 0}, "max_tokens must be"),
    ):
        with pytest.raises(ConfigError, match=what):
            QaSettings(**settings)  # type: ignore[arg-type]


def test_rows_that_cannot_be_asked_are_named(media: Media) -> None:
    broken = {"news": [QaPair("news", replace(TRUE, tag="snow"), replace(FALSE, tag="snow"))]}
    with pytest.raises(DataError, match=r"news\.jsonl:1: tag expression 'snow'"):
        qa_questions(broken, media, QaSettings())
    mute = {"news": [QaPair("news", replace(TRUE, text="[<region>]", tag=""), replace(FALSE, text=" ", tag=""))]}
    assert len(qa_questions(mute, media, QaSettings())) == 2
    with pytest.raises(DataError, match=r"news\.jsonl:1: query news/BV1 has no description"):
        qa_questions(mute, media, QaSettings("text"))


def test_all_released_questions(shared: Path) -> None:
    rows = read_questions(shared / "data" / "muvr_qa")
    pairs = {partition: pair_rows(part, partition) for partition, part in rows.items()}
    found = qa_questions(pairs, Media(), QaSettings(frames=(1, 6, 12)))
    assert len(found) == len({(question.id, question.setting) for question in found}) == 600
    assert [question.truth for question in found] == ["yes", "no"] * 300
    assert len({question.about["pair"] for question in found}) == 100
    assert len(Media.missing(found)) == 600
    again = {name: pair_rows(part[::-1], name) for name, part in reversed(rows.items())}
    assert {q.id for q in qa_questions(again, Media(), QaSettings())} == {q.id for q in found}


def test_a_pair_of_a_ranking(media: Media) -> None:
    query = Query("news/BV1", "news", "news/7", "A dog [<region>] runs.")
    question = pair_question(query, None, "news/BV3", False, media, PairSettings(frames=1, resolution=224))
    assert question.id == "news/BV1|news/BV3|"
    assert (question.setting, question.truth, question.choices) == ("images_1f_224px", "no", ("yes", "no"))
    assert visuals(question) == [("image", "news/BV1"), ("video", "news/BV3")]
    facts = {name: question.about[name] for name in ("query", "video", "expression", "outlined", "benchmark")}
    assert facts == {
        "query": "news/BV1",
        "video": "news/BV3",
        "expression": "",
        "outlined": True,
        "benchmark": "rerank",
    }
    tagged = pair_question(query, "OR +a -b", "news/BV3", True, media, PairSettings("text"))
    assert (tagged.id, tagged.truth, tagged.setting) == ("news/BV1|news/BV3|OR +a -b", "yes", "text_6f")


def test_the_prompt_is_that_of_muvr_qa(media: Media) -> None:
    query = Query("news/BV1", "news", "news/7", TRUE.text)
    ranked = pair_question(query, TRUE.tag, "news/BV2", True, media, PairSettings())
    asked = qa_questions(PAIRS, media, QaSettings())[0]
    assert texts(ranked) == texts(asked)


def test_queries_that_share_a_video_and_queries_without_text(media: Media) -> None:
    query = Query("news/q7", "news", "news/7", None, video="news/BV2", mask="news/BV1.json")
    question = pair_question(query, None, "news/BV3", True, media, PairSettings())
    assert visuals(question)[0] == ("image", "news/BV2")
    assert question.about["outlined"] is True
    assert "Description" not in texts(question)
    with pytest.raises(DataError, match="news/q7 has no description"):
        pair_question(query, None, "news/BV3", True, media, PairSettings("text"))
