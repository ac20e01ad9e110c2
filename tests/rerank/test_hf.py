"""Local models of every family answer as plain passes through them say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.rerank.answerers.hf import Transformers
from muvr_train.rerank.answerers.hf_chat import FirstScores
from muvr_train.rerank.types import Clip, Part, Picture
from tests.rerank.hf_requests import (
    MIXED,
    SPELLINGS,
    TinyAnswerers,
    TinyModels,
    clip,
    decode_slowly,
    inputs_of,
    pixels,
    prepared,
    request,
)
from tests.rerank.tiny_mllm import FAMILIES, build

WITH_VIDEO = [family for family in FAMILIES if family != "smolvlm"]


@pytest.mark.parametrize(("family", "clip_as"), [(f, "frames") for f in FAMILIES] + [(f, "video") for f in WITH_VIDEO])
def test_answers_and_log_probabilities_equal_plain_passes(
    tiny_answerers: TinyAnswerers, tiny_models: TinyModels, family: str, clip_as: str
) -> None:
    from transformers import AutoModelForImageTextToText

    answerer = tiny_answerers(family, clip_as=clip_as)
    reply = answerer.answer(request())
    model = AutoModelForImageTextToText.from_pretrained(tiny_models(family)).eval()
    inputs = inputs_of(answerer, MIXED)
    tokenizer: Any = answerer._chat.processor.tokenizer  # type: ignore[union-attr]
    tokens, steps = decode_slowly(model, inputs, 6, [tokenizer.eos_token_id])
    texts = [tokenizer.decode([token], skip_special_tokens=True) for token in tokens]
    scores = steps[next((i for i, text in enumerate(texts) if any(map(str.isalnum, text))), 0)]
    assert reply.text == tokenizer.decode(tokens, skip_special_tokens=True)
    assert (reply.prompt_tokens, reply.completion_tokens) == (inputs["input_ids"].shape[1], len(tokens))
    expected = scores.log_softmax(0)
    top = {tokenizer.decode([int(i)]) for i in scores.topk(20).indices}
    assert reply.tokens is not None
    assert set(reply.tokens) == top | SPELLINGS
    for text, value in reply.tokens.items():
        ids = [i for i in range(len(tokenizer)) if tokenizer.decode([i]) == text]
        if len(ids) == 1:
            assert value == pytest.approx(float(expected[ids[0]]), abs=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_given_what_its_processor_makes_of_a_chat(tiny_answerers: TinyAnswerers, family: str) -> None:
    from PIL import Image

    answerer = tiny_answerers(family)
    frames = [pixels(40, 60), pixels(30, 30, 1), pixels(90, 20, 2)]
    ours = inputs_of(answerer, (Picture(frames[0]), "One,", Clip(tuple(frames[1:])), "two?"))
    pictures: list[dict[str, Any]] = [{"type": "image", "image": Image.fromarray(frame)} for frame in frames]
    content = [pictures[0], {"type": "text", "text": "One,"}, *pictures[1:], {"type": "text", "text": "two?"}]
    processor: Any = answerer._chat.processor  # type: ignore[union-attr]
    theirs = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name


@pytest.mark.parametrize("family", FAMILIES)
def test_pictures_keep_their_order(tiny_answerers: TinyAnswerers, family: str) -> None:
    answerer = tiny_answerers(family)
    a, b = Picture(pixels(28, 28, 1)), Picture(pixels(28, 28, 2))
    one, other = answerer.answer(request((a, "or", b))), answerer.answer(request((b, "or", a)))
    assert one.prompt_tokens == other.prompt_tokens
    assert one.tokens != other.tokens
    before, behind = inputs_of(answerer, (a, b, "or")), inputs_of(answerer, ("or", a, b))
    assert before["input_ids"].tolist() != behind["input_ids"].tolist()
    assert torch.equal(before["pixel_values"], behind["pixel_values"])


@pytest.mark.parametrize(
    ("family", "parts", "count"),
    [
        ("qwen2_vl", (Picture(pixels(56, 56)),), 4),  # 4 x 4 patches of 14 pixels, merged 2 x 2
        ("qwen2_vl", (Picture(pixels(28, 28)), clip(3, 28, 28)), 4),  # 2 x 2 patches each
        ("qwen2_5_vl", (Picture(pixels(28, 56)),), 2),
        ("qwen3_vl", (Picture(pixels(64, 64)),), 4),  # patches of 16 pixels
        ("internvl", (Picture(pixels(28, 28)),), 4),  # one square: no further crops
        ("internvl", (Picture(pixels(28, 56)),), 12),  # two crops and the whole
        ("llava_onevision", (Picture(pixels(28, 28)), clip(2, 28, 28)), 51),  # 4 x 4 and a newline, each
        ("smolvlm", (Picture(pixels(28, 28)),), 20),  # enlarged to 56 x 56: four parts and the whole
    ],
)
def test_number_of_image_tokens(
    tiny_answerers: TinyAnswerers, family: str, parts: tuple[Part, ...], count: int
) -> None:
    answerer = tiny_answerers(family)
    mark = answerer._chat.processor.image_token_id  # type: ignore[union-attr]
    assert (inputs_of(answerer, (*parts, "Which?"))["input_ids"] == mark).sum() == count


@pytest.mark.parametrize("family", FAMILIES)
def test_odd_sizes_and_texts(tiny_answerers: TinyAnswerers, family: str) -> None:
    answerer = tiny_answerers(family)
    tokenizer: Any = answerer._chat.processor.tokenizer  # type: ignore[union-attr]
    odd: tuple[Part, ...] = tuple(Picture(pixels(*size)) for size in [(1, 1), (28, 500), (3, 7), (200, 30)])
    for parts in [odd, (odd[0],), (Clip((pixels(9, 9),)),), (), ("",)]:
        reply = answerer.answer(request((*parts, "Ist das dasselbe? 同じ? ñ 🎬")))
        assert reply.completion_tokens
        assert "Ist das dasselbe? 同じ? ñ 🎬" in tokenizer.decode(
            inputs_of(answerer, (*parts, "Ist das dasselbe? 同じ? ñ 🎬"))["input_ids"][0]
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_marks_in_texts_are_texts(tiny_answerers: TinyAnswerers, family: str) -> None:
    answerer = tiny_answerers(family)
    processor: Any = answerer._chat.processor  # type: ignore[union-attr]
    marks = [processor.image_token, processor.video_token, "<|im_end|>", "<region>"]
    text = f"What is {' '.join(marks)} here?"
    plain, marked = (inputs_of(answerer, (Picture(pixels(28, 28)), t)) for t in ("What?", text))
    for token in (processor.image_token_id, processor.tokenizer.eos_token_id):
        assert (plain["input_ids"] == token).sum() == (marked["input_ids"] == token).sum()
    assert f"< {marks[0][1:]}" in processor.tokenizer.decode(marked["input_ids"][0])
    assert "<region>" in processor.tokenizer.decode(marked["input_ids"][0])
    assert answerer.answer(request((Picture(pixels(28, 28)), text))).completion_tokens


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl", "smolvlm"])
def test_answers_do_not_depend_on_what_was_asked_before(tiny_answerers: TinyAnswerers, family: str) -> None:
    answerer = tiny_answerers(family)
    asked = [request(), request(("Yes or no?",)), request((clip(2), "?")), request((Picture(pixels(50, 20)), "é"))]
    forwards = [answerer.answer(one) for one in asked]
    backwards = [answerer.answer(one) for one in reversed(asked)]
    assert forwards == backwards[::-1]


def test_length_of_answers(tiny_models: TinyModels, tiny_answerers: TinyAnswerers, tmp_path: Path) -> None:
    answerer = tiny_answerers("qwen2_vl")
    assert answerer.answer(request(max_tokens=3)).completion_tokens == 3
    assert answerer.answer(request(max_tokens=1, logprobs=False)).tokens is None
    limited = prepared(tiny_models("qwen2_vl"), max_tokens=2)
    assert limited.answer(request(max_tokens=9)).completion_tokens == 2
    model: Any = answerer._chat.model  # type: ignore[union-attr]
    tokens, _ = decode_slowly(model, inputs_of(answerer, MIXED), 6, [])
    ends = prepared(build("qwen2_vl", tmp_path / "ends", eos_token_id=[399, tokens[2]]))
    assert ends.answer(request()).completion_tokens == tokens.index(tokens[2]) + 1


def test_the_models_own_sampling_and_penalties_are_left_aside(
    tiny_models: TinyModels, tiny_answerers: TinyAnswerers, tmp_path: Path
) -> None:
    own = {"do_sample": True, "temperature": 9.0, "top_k": 3, "repetition_penalty": 5.0, "no_repeat_ngram_size": 1}
    folder = build("qwen2_vl", tmp_path / "sampling", **own)
    assert json.loads((folder / "generation_config.json").read_text())["repetition_penalty"] == 5.0
    question = request(max_tokens=20)
    assert prepared(folder).answer(question) == tiny_answerers("qwen2_vl").answer(question)


def test_bounds_and_options_of_pictures(tiny_models: TinyModels, tiny_answerers: TinyAnswerers) -> None:
    parts = (Picture(pixels(56, 56)), "?")

    def count(answerer: Transformers, parts: tuple[Part, ...] = parts) -> int:
        mark = answerer._chat.processor.image_token_id  # type: ignore[union-attr]
        return int((inputs_of(answerer, parts)["input_ids"] == mark).sum())

    assert [count(tiny_answerers("qwen2_vl")), count(tiny_answerers("qwen2_vl", max_pixels=28 * 28))] == [4, 1]
    small = (Picture(pixels(28, 28)), "?")
    assert [count(tiny_answerers("qwen2_vl"), small), count(tiny_answerers("qwen2_vl", min_pixels=56 * 56), small)] == [
        1,
        4,
    ]
    wide = (Picture(pixels(28, 56)), "?")
    assert count(tiny_answerers("internvl", processor={"crop_to_patches": False}), wide) == 4
    with pytest.raises(ConfigError, match=r"max_pixels.*GotOcr2ImageProcessor.*benchmark\.resolution"):
        prepared(tiny_models("internvl"), max_pixels=1000)


def test_videos_have_their_times(tiny_answerers: TinyAnswerers) -> None:
    answerer = tiny_answerers("qwen3_vl", clip_as="video")
    tokenizer: Any = answerer._chat.processor.tokenizer  # type: ignore[union-attr]
    text = tokenizer.decode(inputs_of(answerer, (clip(4), "?"))["input_ids"][0])
    assert [f"<{time} seconds>" in text for time in ("1.2", "4.2")] == [True, True]  # means of pairs: 0.5 + 1.5 i
    grid = inputs_of(tiny_answerers("qwen2_5_vl", clip_as="video"), (clip(4), "?"))["second_per_grid_ts"]
    assert grid.tolist() == [3.0]  # two frames, 1.5 s apart
    frames = tiny_answerers("qwen2_vl", frame_times=True)
    decoded = frames._chat.processor.tokenizer.decode(inputs_of(frames, (clip(2), "?"))["input_ids"][0])  # type: ignore
    assert "[0.5 s]" in decoded
    assert "[2.0 s]" in decoded


def test_half_precision(tiny_answerers: TinyAnswerers) -> None:
    answerer = tiny_answerers("qwen2_5_vl", dtype="bfloat16")
    assert answerer._chat.model.dtype == torch.bfloat16  # type: ignore[union-attr]
    exact, half = tiny_answerers("qwen2_5_vl").answer(request()).tokens, answerer.answer(request()).tokens
    assert exact is not None
    assert half is not None
    assert half["yes"] == pytest.approx(exact["yes"], abs=0.3)


def test_tokens_that_read_the_same_share_their_mass(tiny_models: TinyModels) -> None:
    chat: Any = prepared(tiny_models("internvl"))._chat
    chat.texts = ["Yes", "x", "Yes", " yes ", "no"]  # as of a tokenizer that does not tell "Yes" from " Yes"
    scores = torch.log(torch.tensor([0.1, 0.2, 0.3, 0.15, 0.05, 0.2]))
    tokens = chat.first_tokens(scores, ("yes", "no"))
    expected = {"Yes": 0.4, "x": 0.2, " yes ": 0.15, "no": 0.05}
    assert {text: np.exp(value) for text, value in tokens.items()} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("written", "step"),
    [
        (["Yes"], 0),
        (["**", "No"], 1),
        ([" ", "(", "B", ")", "C"], 2),
        (["**", "No", "**", "7"], 1),
        (["**"], 0),
        (["**", "("], 0),
        (["(", "3"], 1),
        (["是"], 0),
    ],
)
def test_the_first_token_with_a_letter_or_digit_counts(written: list[str], step: int) -> None:
    scores = FirstScores(lambda index: any(map(str.isalnum, written[index - 100])))
    for place in range(len(written)):
        given = torch.full((1, 5), float(place))
        assert scores(torch.tensor([[102, 101, *range(100, 100 + place)]]), given) is given
    assert scores.of_answer(100 + len(written) - 1).tolist() == [step] * 5
    assert scores.first.tolist() == [[0] * 5]


def test_nothing_heavy_is_imported_before_a_model_is_loaded() -> None:
    code = (
        "import sys; from muvr_train.rerank.answerers.hf import Transformers; Transformers('m');"
        "sys.exit(str([m for m in ('torch', 'transformers', 'PIL', 'av') if m in sys.modules]) if "
        "{'torch', 'transformers', 'PIL', 'av'} & set(sys.modules) else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
