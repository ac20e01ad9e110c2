"""InternVL by the chat method of its own code: tiles, their order, and what the method is told."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.errors import ConfigError
from muvr_train.rerank.answerers.hf import Transformers
from muvr_train.rerank.answerers.hf_internvl import grid, tiles
from muvr_train.rerank.types import AnswerError, Clip, Part, Picture, Pixels
from tests.rerank.hf_requests import clip, pixels, prepared, request
from tests.rerank.test_hf_chat_method import CONFIGURATION, code_cache
from tests.rerank.tiny_mllm import make_tokenizer

__all__ = ["code_cache"]
MODEL = """
import torch
from transformers import PreTrainedModel
from .configuration_tiny import TinyConfig

class Language(torch.nn.Linear):
    def generate(self):
        pass

class InternVLChatModel(PreTrainedModel):
    config_class = TinyConfig

    def __init__(self, config):
        super().__init__(config)
        self.language_model = Language(2, 2)
        self.post_init()

    def chat(self, tokenizer, pixel_values, question, generation_config, history=None, return_history=False,
             num_patches_list=None, IMG_START_TOKEN='<img>', IMG_END_TOKEN='</img>', IMG_CONTEXT_TOKEN='<IMG_CONTEXT>',
             verbose=False):
        if pixel_values is None:
            return repr((question, generation_config, num_patches_list, torch.is_grad_enabled()))
        assert len(pixel_values) == sum(num_patches_list) and question.count("<image>") == len(num_patches_list)
        means = [round(float(value), 2) for value in pixel_values.float().mean((1, 2, 3))]
        generation_config["eos_token_id"] = 1
        if "nothing" in question:
            return None
        return repr((question, list(pixel_values.shape), str(pixel_values.dtype), num_patches_list, means))
"""
SIDE = 28


def make(folder: Path, model: str = MODEL) -> Path:
    import torch
    from safetensors.torch import save_file

    folder.mkdir()
    (folder / "configuration_tiny.py").write_text(CONFIGURATION.format(ran="", kind="internvl_chat"))
    (folder / "modeling_tiny.py").write_text(model)
    classes = {"AutoConfig": "configuration_tiny.TinyConfig", "AutoModel": "modeling_tiny.InternVLChatModel"}
    facts = {"model_type": "internvl_chat", "architectures": ["InternVLChatModel"], "auto_map": classes}
    (folder / "config.json").write_text(json.dumps({**facts, "force_image_size": SIDE, "dtype": "bfloat16"}))
    weights = {f"language_model.{name}": torch.zeros(shape) for name, shape in (("weight", (2, 2)), ("bias", (2,)))}
    save_file(
        {name: value.bfloat16() for name, value in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )
    make_tokenizer({"image_token": "<IMG_CONTEXT>"}).save_pretrained(folder)
    return folder


def plain(value: int, height: int = 40, width: int = 40) -> Pixels:
    return np.full((height, width, 3), value, np.uint8)


def said(answerer: Transformers, *parts: Part) -> tuple[Any, ...]:
    return tuple(ast.literal_eval(answerer.answer(request(parts, max_tokens=7)).text))


def test_pictures_are_tiles_and_frames_are_one_each_in_order(tmp_path: Path) -> None:
    answerer = prepared(make(tmp_path / "model"), trust_remote_code=True)
    frames = Clip((plain(0), plain(255)), (0.5, 2.0))
    wide = Picture(plain(128, 20, 60))
    question, shape, dtype, counts, means = said(answerer, "A.", wide, "B <image>, <IMG_CONTEXT>.", frames, "C?")
    assert question == "A.\n<image>\nB < image>, < IMG_CONTEXT>.\nFrame1: <image>\nFrame2: <image>\nC?"
    assert (shape, dtype, counts) == ([6, 3, SIDE, SIDE], "torch.bfloat16", [4, 1, 1])
    dark, light = (round(float(np.mean((value - np.array(MEAN)) / np.array(STD))), 2) for value in (0, 1))
    assert means[:4] == [means[0]] * 4
    assert means[4:] == pytest.approx([dark, light], abs=0.02)
    answerer.warm_up([request().question])


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def test_a_text_alone_and_times_of_frames(tmp_path: Path) -> None:
    folder = make(tmp_path / "model")
    options = {"max_new_tokens": 7, "do_sample": False, "num_beams": 1}
    assert said(prepared(folder, trust_remote_code=True), "Well?") == ("Well?", options, [], False)
    timed = prepared(folder, trust_remote_code=True, frame_times=True, processor={"max_num": 1})
    question, *_, counts, _ = said(timed, Clip((plain(0), plain(9)), (0.5, 2.0)), Picture(plain(9, 10, 90)))
    assert question == "[0.5 s]\nFrame1: <image>\n[2.0 s]\nFrame2: <image>\n<image>"
    assert counts == [1, 1, 1]
    with pytest.raises(AnswerError, match="gave NoneType instead of a text"):
        timed.answer(request((Picture(plain(9)), "nothing")))


@pytest.mark.parametrize(
    ("width", "height", "most", "expected"),
    [
        (448, 448, 12, (1, 1)),
        (640, 640, 12, (2, 2)),  # more than half of 2 x 2 tiles
        (633, 633, 12, (1, 1)),
        (800, 600, 12, (4, 3)),
        (1920, 1080, 12, (4, 2)),
        (1080, 1920, 12, (2, 4)),
        (1920, 1080, 6, (2, 1)),
        (1920, 1080, 1, (1, 1)),
        (10, 4000, 12, (1, 12)),
    ],
)
def test_the_grid_has_the_nearest_ratio(width: int, height: int, most: int, expected: tuple[int, int]) -> None:
    assert grid(width, height, 448, most) == expected


def test_tiles_are_the_parts_of_the_picture_from_left_to_right_and_the_whole_behind() -> None:
    picture = pixels(40, 60)
    cut = tiles(picture, 20, 6)
    assert cut.shape == (7, 3, 20, 20)
    values = (picture / 255 - MEAN) / STD
    for place in range(6):
        top, left = 20 * (place // 3), 20 * (place % 3)
        part = values[top : top + 20, left : left + 20].transpose(2, 0, 1)
        np.testing.assert_allclose(cut[place], part, atol=1e-5)
    small = np.asarray(Image.fromarray(picture).resize((20, 20), Image.Resampling.BICUBIC)) / 255
    np.testing.assert_allclose(cut[6], ((small - MEAN) / STD).transpose(2, 0, 1), atol=1e-5)
    assert tiles(picture, 20, 1).shape == (1, 3, 20, 20)
    assert tiles(pixels(1, 1), 20, 12).shape == (1, 3, 20, 20)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"processor": {"max_nun": 3}}, "answerer.processor.max_nun: of InternVL's chat method only max_num"),
        ({"processor": {"max_num": 0}}, "answerer.processor.max_num must be a whole number"),
        ({"clip_as": "video"}, "takes frames only"),
        ({"trust_remote_code": False}, "trust_remote_code=true"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path: Path, settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        prepared(make(tmp_path / "model"), **{"trust_remote_code": True, **settings})


def test_code_for_an_older_release_says_which(tmp_path: Path) -> None:
    folder = make(tmp_path / "older", MODEL.replace("def generate", "def gone"))
    with pytest.raises(ConfigError, match=r"pip install 'transformers==4\.49\.\*'"):
        prepared(folder, trust_remote_code=True)


def test_clips_of_the_tiny_models_fit(tmp_path: Path) -> None:
    answerer = prepared(make(tmp_path / "model"), trust_remote_code=True)
    assert said(answerer, clip(3), "Well?")[3] == [1, 1, 1]
