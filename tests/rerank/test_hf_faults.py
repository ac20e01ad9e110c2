"""A model that cannot be asked is found out before the first question; a question that cannot be asked fails alone."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from muvr_train.errors import ConfigError
from muvr_train.rerank.types import AnswerError, Picture
from tests.rerank.hf_requests import TinyAnswerers, TinyModels, clip, pixels, prepared, request


def test_a_model_is_tried_before_the_first_question(tiny_answerers: TinyAnswerers) -> None:
    smol = tiny_answerers("smolvlm", clip_as="video")
    smol.warm_up([request((clip(), "?")).question, request(("?",)).question])
    assert smol.answer(request((clip(), "?"))).completion_tokens
    with pytest.raises(ConfigError, match=r"cannot be asked about image and video with clip_as=video"):
        smol.warm_up([request().question])
    wrong = tiny_answerers("qwen2_vl", processor={"no_such_option": 3})
    wrong.warm_up([request(("?",)).question])
    with pytest.raises(ConfigError, match="no_such_option"):
        wrong.warm_up([request().question])


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('no pictures, please') }}", "the chat template refuses it: no pictures, please"),
        ("{% for m in messages %}{{ m['content'] + '!' }}{% endfor %}", "cannot be asked about image and video"),
        ("{% for m in messages %}{{ m['content'][1]['text'] }}{% endfor %}", "image_pad.* tokens in the prompts"),
    ],
)
def test_a_chat_template_for_texts_is_found_out(tiny_models: TinyModels, template: str, message: str) -> None:
    answerer = prepared(tiny_models("qwen2_vl"))
    answerer._chat.processor.chat_template = template  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match=message):
        answerer.warm_up([request().question])


def test_a_chat_template_of_the_tokenizer_does_as_well(tiny_models: TinyModels, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_models("qwen2_vl"), tmp_path / "copy"))
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").unlink()
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "chat_template": template}))
    assert prepared(folder).answer(request()) == prepared(tiny_models("qwen2_vl")).answer(request())


def test_a_question_that_is_too_long_fails_alone(tiny_answerers: TinyAnswerers) -> None:
    answerer = tiny_answerers("qwen2_vl")
    with pytest.raises(AnswerError, match=r"tokens and 6 of the answer are more than the 4096.*benchmark\.frames"):
        answerer.answer(request(("no " * 5000,)))
    with pytest.raises(AnswerError, match="aspect ratio"):
        answerer.answer(request((Picture(pixels(4, 900)),)))
    assert answerer.answer(request()).completion_tokens == 6


def test_a_question_without_enough_memory_fails_alone(tiny_answerers: TinyAnswerers) -> None:
    answerer = tiny_answerers("internvl")

    def greedy_for_memory(*_: Any) -> None:
        torch.empty(2**60)

    hook = answerer._chat.model.register_forward_pre_hook(greedy_for_memory)  # type: ignore[union-attr]
    with pytest.raises(AnswerError, match=r"not enough memory.*benchmark\.frames") as caught:
        answerer.answer(request())
    hook.remove()
    assert not caught.value.fatal
    assert answerer.answer(request()).completion_tokens == 6


def test_scores_that_are_no_numbers_are_no_answer(tiny_models: TinyModels) -> None:
    answerer = prepared(tiny_models("internvl"))
    torch.nn.init.constant_(answerer._chat.model.lm_head.weight, math.nan)  # type: ignore[union-attr]
    with pytest.raises(AnswerError, match=r"not numbers.*dtype"):
        answerer.answer(request())
