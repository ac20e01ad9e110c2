"""Requests to local models, and their slow twins: whole forward passes, one per token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from muvr_train.rerank.answerers.hf import Transformers
from muvr_train.rerank.types import Clip, Part, Picture, Pixels, Question, Request, Visual

TinyModels = Callable[[str], Path]
TinyAnswerers = Callable[..., Transformers]
SPELLINGS = {"yes", " yes", "Yes", " Yes", "YES", " YES", "no", " no", " No", " NO"}
"""Single tokens of the tiny tokenizer that spell one of the choices."""


def pixels(height: int, width: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def clip(count: int = 4, height: int = 40, width: int = 60, seed: int = 10) -> Clip:
    return Clip(
        tuple(pixels(height, width, seed + i) for i in range(count)), tuple(0.5 + 1.5 * i for i in range(count))
    )


MIXED: tuple[Part, ...] = (Picture(pixels(40, 60)), "Does the video show this?", clip(), "Answer yes or no.")


def request(parts: tuple[Part, ...] = MIXED, logprobs: bool = True, max_tokens: int = 6) -> Request:
    def never() -> Any:
        raise AssertionError("an answerer does not load")

    shown = tuple(
        part
        if isinstance(part, str)
        else Visual("image" if isinstance(part, Picture) else "video", "a", lambda: "", never)
        for part in parts
    )
    return Request(parts, Question("q", "s", shown, ("yes", "no"), "yes", max_tokens), logprobs)


def prepared(folder: Any, **settings: Any) -> Transformers:
    answerer = Transformers(str(folder), device_map="cpu", **settings)
    answerer.prepare()
    return answerer


def inputs_of(answerer: Transformers, parts: tuple[Part, ...]) -> dict[str, Any]:
    """What the model of an answerer is given."""
    from muvr_train.rerank.answerers.hf_inputs import make_inputs

    chat: Any = answerer._chat
    return dict(make_inputs(chat.processor, parts, answerer.inputs, chat.specials))


def decode_slowly(model: Any, inputs: dict[str, Any], count: int, ends: list[int]) -> tuple[list[int], list[Any]]:
    """Greedy decoding without a cache: a whole forward pass per token; tokens, and the scores of every step."""
    inputs, tokens, steps = dict(inputs), [], []
    with torch.no_grad():
        while len(tokens) < count and not (tokens and tokens[-1] in ends):
            steps.append(model(**inputs, use_cache=False).logits[0, -1].float())
            tokens.append(int(steps[-1].argmax()))
            for name, value in (("input_ids", tokens[-1]), ("attention_mask", 1), ("mm_token_type_ids", 0)):
                if name in inputs:
                    inputs[name] = torch.cat([inputs[name], torch.tensor([[value]])], 1)
    return tokens, steps
