"""What is sent, and what is read out of replies of all kinds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from muvr_train.rerank.answerers.openai_messages import (
    NoLogprobsError,
    message_content,
    read_reply,
    server_message,
)
from muvr_train.rerank.answerers.retries import TransientError
from muvr_train.rerank.images import ImageSettings
from muvr_train.rerank.types import AnswerError, Clip, Picture, Reply


def body(message: object, logprobs: object = None, finish: str = "stop", **more: Any) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}
    return json.dumps({"choices": [choice], **more}, ensure_ascii=False).encode()


def token(text: str, value: float, *others: tuple[str, float]) -> dict[str, Any]:
    top = [{"token": name, "logprob": number} for name, number in ((text, value), *others)]
    return {"token": text, "logprob": value, "bytes": None, "top_logprobs": top}


@pytest.mark.parametrize(
    ("message", "finish", "text"),
    [
        ({"content": "Yes"}, "stop", "Yes"),
        ({"content": " **B**\n"}, "stop", " **B**\n"),
        ({"content": "Yes, because the"}, "length", "Yes, because the"),
        ({"content": ""}, "stop", ""),
        ({"content": "はい 🎬"}, "stop", "はい 🎬"),
        ({"content": "B", "reasoning_content": "hm"}, "stop", "B"),
        ({"content": "B", "reasoning": "hm"}, "length", "B"),
        ({"content": None, "refusal": "I can't help."}, "stop", "I can't help."),
        ({"content": "half", "refusal": None}, "content_filter", "half"),
        ({"content": [{"type": "text", "text": "Y"}, {"type": "text", "text": "es"}]}, "stop", "Yes"),
    ],
)
def test_the_text_is_kept_as_it_came(message: dict[str, Any], finish: str, text: str) -> None:
    assert read_reply(body(message, finish=finish)) == Reply(text, finish=finish)


def test_tokens_are_counted_where_the_server_counts_them() -> None:
    usage = {"prompt_tokens": 812, "completion_tokens": 3, "total_tokens": 815}
    assert read_reply(body({"content": "No"}, usage=usage)) == Reply("No", None, 812, 3, finish="stop")
    odd = {"prompt_tokens": "many", "completion_tokens": None}
    assert read_reply(body({"content": "No"}, usage=odd)) == Reply("No", finish="stop")
    for least in (-1, -5, 10**400, float("inf"), True):
        broken = {"prompt_tokens": least, "completion_tokens": least}
        assert read_reply(body({"content": "No"}, usage=broken)) == Reply("No", finish="stop")
    assert read_reply(body({"content": "No"}, usage={"prompt_tokens": 0})) == Reply("No", None, 0, finish="stop")
    assert read_reply(body({"content": "No"}, usage=None)) == Reply("No", finish="stop")
    assert read_reply(b"\xef\xbb\xbf" + body({"content": "No"})) == Reply("No", finish="stop")


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (b"", "malformed JSON", "no JSON"),
        (b"<html>502 <b>bad</b></html>", "malformed JSON", "502"),
        (b'{"choices": [{"mess', "malformed JSON", "no JSON"),
        (b"\xff\xfe{}", "malformed JSON", "no JSON"),
        (b"[]", "malformed JSON", "no JSON"),
        (b"null", "malformed JSON", "no JSON"),
        (b"{}", "no message", "no message"),
        (b'{"choices": []}', "no message", "no message"),
        (b'{"choices": null, "error": {"message": "upstream is down"}}', "no message", "upstream is down"),
        (b'{"choices": {"0": 1}}', "no message", "no message"),
        (b'{"choices": ["Yes"]}', "no message", "no message"),
        (b'{"choices": [{"text": "Yes"}]}', "no message", "no message"),
        (body({"content": None}), "no text", "without a text"),
        (body({}), "no text", "without a text"),
        (body({"content": 7}), "no text", "without a text"),
        (body({"content": []}), "no text", "without a text"),
    ],
)
def test_broken_replies_may_be_asked_for_again(reply: bytes, kind: str, says: str) -> None:
    with pytest.raises(TransientError, match=says) as error:
        read_reply(reply)
    assert error.value.kind == kind
    assert not error.value.lost


@pytest.mark.parametrize(
    ("message", "finish", "says"),
    [
        ({"content": None, "reasoning_content": "Let me see"}, "length", r"raise answerer\.max_tokens"),
        ({"content": "", "reasoning_content": "Let me see"}, "length", r"raise answerer\.max_tokens"),
        ({"content": None, "reasoning": "Let me see"}, "stop", "gave no answer"),
        ({"content": None}, "content_filter", "content filter"),
    ],
)
def test_what_never_became_an_answer_is_a_failure(message: dict[str, Any], finish: str, says: str) -> None:
    with pytest.raises(AnswerError, match=says) as error:
        read_reply(body(message, finish=finish))
    assert not error.value.fatal


def test_log_probabilities_of_the_first_token() -> None:
    given = {"content": [token("Yes", -0.1, ("No", -2.5), (" yes", -4.0)), token(".", -0.2, ("!", -3.0))]}
    reply = read_reply(body({"content": "Yes."}, given), logprobs=True)
    assert reply.tokens == {"Yes": -0.1, "No": -2.5, " yes": -4.0}
    assert read_reply(body({"content": "Yes."}, given)).tokens is None  # not asked for


def test_log_probabilities_that_no_number_stands_for_are_left_out() -> None:
    raw = body({"content": "Yes"}, {"content": [token("Yes", -0.1, ("No", float("-inf")), ("B", float("nan")))]})
    assert b"-Infinity" in raw
    assert read_reply(raw, logprobs=True).tokens == {"Yes": -0.1}


@pytest.mark.parametrize(
    "candidate",
    [
        *(None, "Yes", 3, [], {}, {"token": "No"}, {"logprob": -1.0}, {"token": None, "logprob": -1.0}),
        *({"token": "No", "logprob": value} for value in (None, "-1", True, [], 10**400, -(10**400))),
    ],
)
def test_candidates_that_are_broken_are_left_out(candidate: object) -> None:
    given = {"content": [{"token": "Yes", "logprob": -0.5, "top_logprobs": [candidate, {"token": "B", "logprob": -2}]}]}
    assert read_reply(body({"content": "Yes"}, given), logprobs=True).tokens == {"Yes": -0.5, "B": -2.0}
    given = {"content": [{"token": "Yes", "logprob": -0.5, "top_logprobs": candidate}]}
    assert read_reply(body({"content": "Yes"}, given), logprobs=True).tokens == {"Yes": -0.5}


def test_a_token_that_is_no_text_is_passed_over() -> None:
    entries = [{"token": None, "logprob": -0.1, "top_logprobs": [{"token": "No", "logprob": -0.2}]}, token("Yes", -0.3)]
    assert read_reply(body({"content": "Yes"}, {"content": entries}), logprobs=True).tokens == {"Yes": -0.3}
    assert read_reply(body({"content": "Yes"}, {"content": entries[:1]}), logprobs=True).tokens is None


def test_the_token_itself_counts_without_candidates_and_white_space_does_not() -> None:
    given = {"content": [token("\n", -0.1, ("Hm", -3.0)), {"token": "No", "logprob": -0.3, "top_logprobs": None}]}
    assert read_reply(body({"content": "\nNo"}, given), logprobs=True).tokens == {"No": -0.3}


@pytest.mark.parametrize(
    ("written", "place"),
    [
        (["**", "No", "**"], 1),
        (["\n", "(", "B", ")"], 2),
        (['"', "Yes", '"'], 1),
        (["“", "Yes"], 1),
        (["**Yes", "No"], 0),
        (["3", "Yes"], 0),
        (["**", "是"], 1),
        ([" ", "**"], 1),
        (["."], 0),
    ],
)
def test_the_first_token_with_a_letter_or_digit_counts(written: list[str], place: int) -> None:
    given = {"content": [token(text, -1.0 - i, (f"other{i}", -9.0)) for i, text in enumerate(written)]}
    found = read_reply(body({"content": "".join(written)}, given), logprobs=True).tokens
    assert found == {written[place]: -1.0 - place, f"other{place}": -9.0}


def test_behind_a_reasoning_the_answers_first_token_counts() -> None:
    written = ["<think>", "Yes", "?", " No", ".", "</think>", "\n\n", "No", "."]
    given = {"content": [token(text, -1.0 - i, (f"other{i}", -9.0)) for i, text in enumerate(written)]}
    message = {"content": "\n\nNo.", "reasoning_content": "Yes? No."}
    assert read_reply(body(message, given), logprobs=True).tokens == {"No": -8.0, "other7": -9.0}
    elsewhere = {"content": "Maybe", "reasoning_content": "Yes? No."}
    assert read_reply(body(elsewhere, given), logprobs=True).tokens is None


@pytest.mark.parametrize("given", [None, {}, {"content": None}, {"content": []}, {"content": ["Yes"]}])
def test_a_reply_without_log_probabilities_may_be_asked_for_again(given: object) -> None:
    with pytest.raises(NoLogprobsError, match="the reply has no log-probabilities of tokens") as error:
        read_reply(body({"content": "Yes"}, given), logprobs=True)
    assert (error.value.kind, error.value.lost) == ("no log-probabilities", False)
    assert read_reply(body({"content": ""}, given), logprobs=True) == Reply("", finish="stop")  # nothing was said


def test_one_text_is_sent_as_a_plain_text() -> None:
    assert message_content(["Grün? 是"], ImageSettings()) == ("Grün? 是", 0)
    assert message_content(["half \ud83d"], ImageSettings()) == ("half ?", 0)


def test_texts_and_images_are_sent_in_order() -> None:
    red, blue = np.full((4, 6, 3), (200, 0, 0), np.uint8), np.full((4, 6, 3), (0, 0, 200), np.uint8)
    content, shrunk = message_content(
        ["A", Clip((red, blue), (0.0, 2.0)), "B", Picture(red)], ImageSettings("png"), "low", frame_times=True
    )
    assert shrunk == 0
    assert isinstance(content, list)
    assert [part.get("text", "image") for part in content] == [
        "A", "[0.0 s]", "image", "[2.0 s]", "image", "B", "image",
    ]  # fmt: skip
    images = [part["image_url"] for part in content if part["type"] == "image_url"]
    assert [image["detail"] for image in images] == ["low"] * 3
    assert images[0] == images[2] != images[1]
    free, _ = message_content([Picture(red)], ImageSettings())
    assert set(free[0]["image_url"]) == {"url"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"error": {"message": "too long", "code": 400}}, "too long"),
        ({"message": "too long", "type": "x"}, "too long"),
        ({"detail": [{"loc": ["body"], "msg": "field required"}]}, "[{'loc': ['body'], 'msg': 'field required'}]"),
        ({"error": "model not loaded"}, "model not loaded"),
        ({"object": "error"}, '{"object": "error"}'),
        (b"<h1>413\n  Too Large</h1>", "<h1>413 Too Large</h1>"),
        (None, ""),
        ("x" * 500, "x" * 300 + "..."),
    ],
)
def test_servers_errors_on_one_short_line(said: object, message: str) -> None:
    assert server_message(said) == message
