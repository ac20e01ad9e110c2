"""Asks a loaded model of the `transformers` package: by its chat template, or by its own chat method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from muvr_train.rerank.answerers.hf_inputs import InputSettings, disarmed, make_inputs, pil_image, special_texts
from muvr_train.rerank.replies import speaks
from muvr_train.rerank.types import CUT_OFF, AnswerError, Clip, Reply, Request

CANDIDATES = 20
"""Tokens whose log-probabilities are given beside those of the choices."""


class Chat(Protocol):
    """One way to ask a model."""

    def ask(self, request: Request, max_tokens: int) -> Reply:
        """Answer greedily, with `max_tokens` new tokens at most."""


class FirstScores:
    """Keeps the scores of the first token that says something; a logits processor of `generate` that changes nothing.

    Args:
        says: whether a token, by its index, holds a letter or digit; `**`, brackets and white space do not.
    """

    def __init__(self, says: Callable[[int], bool]) -> None:
        self.says = says
        self.first: Any = None
        self._step: Any = None
        self._chosen: Any = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Look at the token that the step before chose, and keep the scores [1, V] of this one."""
        if self._chosen is None:
            if self.first is not None:
                self._settle(int(input_ids[0, -1]))
            if self._chosen is None:
                self._step = scores.detach().float().clone()
                self.first = self._step if self.first is None else self.first
        return scores

    def of_answer(self, last: int) -> Any:
        """Give the scores [V], those of the first step where no token says anything; `last` is the last token."""
        if self._chosen is None:
            self._settle(last)
        return (self.first if self._chosen is None else self._chosen)[0]

    def _settle(self, token: int) -> None:
        if self.says(token):
            self._chosen = self._step


class TemplateChat:
    """A model whose processor has a chat template.

    Args:
        model: in eval mode, on its device.
        processor: with a chat template.
        settings: how questions are shown.
    """

    def __init__(self, model: Any, processor: Any, settings: InputSettings) -> None:
        self.model, self.processor, self.settings = model, processor, settings
        marks = [getattr(processor, name, None) for name in ("image_token", "video_token")]
        self.specials = special_texts(processor.tokenizer, *marks)
        self.context: int | None = getattr(model.config.get_text_config(), "max_position_embeddings", None)
        model.generation_config = greedy(model, processor.tokenizer)

    def ask(self, request: Request, max_tokens: int) -> Reply:
        """Answer one question.

        Raises:
            AnswerError: it does not fit into the context, or the scores are no numbers.
        """
        import torch
        from transformers import LogitsProcessorList

        inputs = make_inputs(self.processor, request.parts, self.settings, self.specials)
        length = inputs["input_ids"].shape[1]
        if self.context is not None and length + max_tokens > self.context:
            raise AnswerError(
                f"{length} tokens and {max_tokens} of the answer are more than the {self.context} that the model "
                "reads; show fewer frames (benchmark.frames), smaller ones (benchmark.resolution) or set "
                "answerer.max_pixels"
            )
        inputs = inputs.to(self.model.device, dtype=self.model.dtype)
        scores = FirstScores(self._says)
        with torch.inference_mode():
            output = self.model.generate(
                **inputs, max_new_tokens=max_tokens, logits_processor=LogitsProcessorList([scores])
            )
        if torch.isnan(scores.first).any():
            raise AnswerError("the model's scores are not numbers; try answerer.dtype=bfloat16 or float32")
        new = output[0, length:]
        text = self.processor.tokenizer.decode(new, skip_special_tokens=True)
        tokens = (
            self.first_tokens(scores.of_answer(int(new[-1])), request.question.choices) if request.logprobs else None
        )
        return Reply(text, tokens, length, len(new), finish=self._finish(new, max_tokens))

    def first_tokens(self, scores: Any, choices: tuple[str, ...]) -> Mapping[str, float]:
        """Log-probabilities of the likeliest tokens and of all that spell a choice, by their text.

        Args:
            scores: float32 [V] of one new token.
            choices: compared without outer spaces and case.
        """
        values = scores.log_softmax(0)
        wanted = set(values.topk(min(CANDIDATES, len(values))).indices.tolist())
        for choice in choices:
            wanted.update(self.spellings.get(choice.strip().casefold(), ()))
        found: dict[str, Any] = {}
        for index in sorted(wanted):
            if index < len(self.texts):  # further ones pad the table of embeddings
                text = self.texts[index]
                found[text] = values[index].logaddexp(found[text]) if text in found else values[index]
        return {text: float(value) for text, value in found.items()}

    def _finish(self, new: Any, max_tokens: int) -> str:
        """Say why an answer [T] ended: at a token that ends answers, or because no more are allowed."""
        ends = self.model.generation_config.eos_token_id
        known = ends if isinstance(ends, (list, tuple)) else [ends]
        return CUT_OFF if len(new) >= max_tokens and int(new[-1]) not in known else "stop"

    def _says(self, index: int) -> bool:
        return speaks(self.processor.tokenizer.decode([index], skip_special_tokens=True))

    @cached_property
    def texts(self) -> list[str]:
        """What every single token says, as the tokenizer writes it."""
        tokenizer = self.processor.tokenizer
        return list(tokenizer.batch_decode([[index] for index in range(len(tokenizer))]))

    @cached_property
    def spellings(self) -> dict[str, list[int]]:
        """Tokens by their text without outer spaces and case."""
        found: dict[str, list[int]] = {}
        for index, text in enumerate(self.texts):
            found.setdefault(text.strip().casefold(), []).append(index)
        return found


def greedy(model: Any, tokenizer: Any) -> Any:
    """Plain greedy decoding with the model's ends; its own defaults (sampling, penalties) are left aside."""
    from transformers import GenerationConfig

    own = model.generation_config
    ends = own.eos_token_id if own.eos_token_id is not None else tokenizer.eos_token_id
    first = ends[0] if isinstance(ends, (list, tuple)) else ends
    pad = own.pad_token_id if own.pad_token_id is not None else tokenizer.pad_token_id
    return GenerationConfig(
        do_sample=False, num_beams=1, eos_token_id=ends, pad_token_id=first if pad is None else pad, use_cache=True
    )


class MethodChat:
    """A model with the chat method of MiniCPM-V: chat(msgs=[...], tokenizer=...), which gives no log-probabilities.

    Args:
        model: in eval mode, on its device.
        tokenizer: its own.
        settings: how questions are shown; frames are always images.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: InputSettings) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.specials = special_texts(tokenizer)

    def ask(self, request: Request, max_tokens: int) -> Reply:
        """Answer one question.

        Raises:
            AnswerError: the method gives something other than a text.
        """
        import torch

        content = [
            disarmed(part, self.specials) if isinstance(part, str) else pil_image(part)
            for part in self.settings.shown(request.parts)
            if not isinstance(part, Clip)
        ]
        options = {"sampling": False, "num_beams": 1, "repetition_penalty": 1.0, **self.settings.processor}
        with torch.inference_mode():
            text = self.model.chat(
                image=None,
                msgs=[{"role": "user", "content": content}],
                tokenizer=self.tokenizer,
                max_new_tokens=max_tokens,
                **options,
            )
        if not isinstance(text, str):
            raise AnswerError(f"the model's method chat gave {type(text).__name__} instead of a text", fatal=True)
        return Reply(text)
