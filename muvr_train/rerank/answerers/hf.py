"""Asks a multimodal language model of the `transformers` package on this machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from muvr_train.errors import ConfigError
from muvr_train.rerank.answerers.hf_chat import Chat
from muvr_train.rerank.answerers.hf_folder import fingerprint, first_line, model_folder
from muvr_train.rerank.answerers.hf_inputs import InputSettings
from muvr_train.rerank.answerers.hf_loading import INSTALL, LoadSettings, load_chat
from muvr_train.rerank.answerers.setting_checks import check_flags, check_mappings, check_number, check_texts
from muvr_train.rerank.types import Answerer, AnswerError, Clip, Part, Picture, Question, Reply, Request

DTYPES = ("auto", "bfloat16", "float16", "float32")
CLIPS = ("frames", "video")
INTERFACES = ("auto", "chat_template", "minicpm_v", "internvl_chat")
PACKAGES = ("torch", "torchvision", "transformers")
LESS = "show fewer frames (benchmark.frames), smaller ones (benchmark.resolution, answerer.max_pixels)"
_GREY = np.full((64, 64, 3), 128, np.uint8)
GREY: Mapping[str, Part] = {"image": Picture(_GREY), "video": Clip((_GREY, _GREY), (0.0, 1.0))}
"""What a model is tried with."""


class Transformers(Answerer):
    """A model that AutoModelForImageTextToText loads, with its processor and chat template; greedy, one at a time.

    Qwen2-VL, Qwen2.5-VL, Qwen3-VL, InternVL (-hf), LLaVA-OneVision, SmolVLM and others; and MiniCPM-V and InternVL by
    the chat methods of their own code.

    Args:
        model: a folder, or a name on the Hugging Face hub (downloaded, or taken from the cache).
        revision: of a model of the hub: branch, tag or commit.
        dtype: auto (as it was saved), bfloat16, float16 or float32.
        device_map: None: the best single device; a device such as cuda:1; or auto, balanced ... (package accelerate).
        attention: eager, sdpa, flash_attention_2 ...; None: what the model prefers.
        trust_remote_code: whether program code that comes with the model may run.
        interface: chat_template, minicpm_v (chat(msgs=..., tokenizer=...)), internvl_chat (chat(tokenizer,
            pixel_values, ...)), or auto: what the model has.
        clip_as: frames: a clip is given as images in order; video: as the processor's video.
        frame_times: put its time before each frame of a clip that is given as images.
        max_pixels: of a picture, for processors that have such bounds (Qwen).
        min_pixels: the same.
        processor: further options of the image processor, such as {crop_to_patches: false}; of a chat method, its.
        template: variables of the chat template, such as {enable_thinking: false}.
        max_tokens: of an answer; None: as the question says.

    Raises:
        ConfigError: a value is not possible.
    """

    def __init__(
        self,
        model: str,
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str | None = None,
        attention: str | None = None,
        trust_remote_code: bool = False,
        interface: str = "auto",
        clip_as: str = "frames",
        frame_times: bool = False,
        max_pixels: int | None = None,
        min_pixels: int | None = None,
        processor: Mapping[str, Any] | None = None,
        template: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if not model or not isinstance(model, str):
            raise ConfigError("answerer.model is missing: give a folder, or a name on the Hugging Face hub")
        for name, value, known in (
            ("dtype", dtype, DTYPES),
            ("clip_as", clip_as, CLIPS),
            ("interface", interface, INTERFACES),
        ):
            if value not in known:
                raise ConfigError(f"answerer.{name}={value} is not possible: choose from {', '.join(known)}")
        for name, number in (("max_pixels", max_pixels), ("min_pixels", min_pixels), ("max_tokens", max_tokens)):
            check_number(name, number, 1, whole=True, optional=True)
        check_texts(revision=revision, device_map=device_map, attention=attention)
        check_flags(trust_remote_code=trust_remote_code, frame_times=frame_times)
        check_mappings(processor=processor, template=template)
        if max_pixels and min_pixels and min_pixels > max_pixels:
            raise ConfigError(f"answerer.min_pixels={min_pixels} is more than answerer.max_pixels={max_pixels}")
        path = Path(model).expanduser()
        self.model, self.name = model, path.resolve().name if path.is_dir() else model
        self.revision, self.max_tokens = revision, max_tokens
        self.load = LoadSettings(dtype, device_map, attention, trust_remote_code, interface)
        self.inputs = InputSettings(
            "video" if clip_as == "video" else "frames",
            frame_times,
            max_pixels,
            min_pixels,
            dict(processor or {}),
            dict(template or {}),
        )
        self._chat: Chat | None = None

    @cached_property
    def folder(self) -> Path:
        """Where the files of the model are; a model of the hub is downloaded at the first use."""
        return model_folder(self.model, self.revision)

    @cached_property
    def _fingerprint(self) -> str:
        return fingerprint(self.folder)

    def identity(self) -> Mapping[str, Any]:
        """Content of the model's files, wherever they lie, and the settings that determine its answers.

        Name, device and attention are left out, which change answers by rounding, and so is the release of
        transformers, so that an upgrade does not ask everything again: it seldom changes what a model is shown.
        """
        names = ("dtype", "trust_remote_code", "interface")
        load = {name: getattr(self.load, name) for name in names}
        facts = {"name": "transformers", "model": self._fingerprint, "max_tokens": self.max_tokens}
        return {**facts, **load, **self.inputs.facts()}

    def prepare(self) -> None:
        """Load the model.

        Raises:
            ConfigError: a package is missing or a setting does not fit the model.
            DataError: the model cannot be had or loaded, or is not one for images and texts.
        """
        missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigError(f"answerer=transformers needs {', '.join(missing)}: {INSTALL}")
        self._chat = load_chat(self.model, self.folder, self.load, self.inputs)

    def warm_up(self, questions: Sequence[Question]) -> None:
        """Ask about a grey picture, a grey video, or both, as the questions have them: faults show at once.

        Raises:
            ConfigError: the model cannot be asked so.
        """
        for kinds in sorted({_kinds(question) for question in questions}):
            trial = Question("trial", "trial", (), ("yes", "no"), "yes", 1)
            request = Request((*(GREY[kind] for kind in kinds), "Is it grey?"), trial)
            try:
                self._ask(request, 1)
            except (AnswerError, TypeError, KeyError, AttributeError, ImportError) as error:
                about = " and ".join(kinds) or "text alone"
                raise ConfigError(
                    f"answerer.model={self.model} cannot be asked about {about} with clip_as={self.inputs.clip_as}: "
                    f"{first_line(error)}"
                ) from error

    def answer(self, request: Request) -> Reply:
        """Answer one question.

        Raises:
            AnswerError: it is too long for the model or the memory, or the model's processor refuses it.
        """
        return self._ask(request, self.max_tokens or request.question.max_tokens)

    def _ask(self, request: Request, max_tokens: int) -> Reply:
        if self._chat is None:
            raise RuntimeError("prepare() was not called")
        with _failures():
            return self._chat.ask(request, max_tokens)

    def close(self) -> None:
        """Let go of the model."""
        if self._chat is not None:
            self._chat = None
            _free_memory()


@contextmanager
def _failures() -> Iterator[None]:
    """Turn what fails at one question into an AnswerError; a device that is lost ends the run."""
    from jinja2 import TemplateError

    try:
        yield
    except AnswerError:
        raise
    except TemplateError as error:
        raise AnswerError(f"the chat template refuses it: {first_line(error)}") from error
    except (MemoryError, RuntimeError, ValueError, IndexError) as error:
        text = str(error).lower()
        if isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
            _free_memory()
            raise AnswerError(f"not enough memory for this question: {LESS}, or take dtype=bfloat16") from error
        lost = "cuda error" in text or "device-side assert" in text
        raise AnswerError(f"{type(error).__name__}: {first_line(error)}", fatal=lost) from error


def _kinds(question: Question) -> tuple[str, ...]:
    return tuple(sorted({part.kind for part in question.parts if not isinstance(part, str)}))


def _free_memory() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()
