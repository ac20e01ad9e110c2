"""Questions as the messages and tensors of `transformers` processors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from muvr_train.rerank.images import flat_parts
from muvr_train.rerank.types import Clip, Part, Pixels

MILLISECONDS = 1000
"""Frames per second that processors are told, so that the number of a frame is its time in milliseconds."""

LEAST_SIDE = 4
"""Pixels; what is smaller is repeated."""


@dataclass(frozen=True)
class InputSettings:
    """How questions are shown.

    Attributes:
        clip_as: whether a clip is given as images in order, or as one video; a clip of one frame is an image.
        frame_times: put its time before each frame of a clip that is given as images.
        max_pixels: of a picture, for processors that have such bounds; None: the processor's own.
        min_pixels: the same.
        processor: further options of the image processor.
        template: variables of the chat template.
    """

    clip_as: Literal["frames", "video"] = "frames"
    frame_times: bool = False
    max_pixels: int | None = None
    min_pixels: int | None = None
    processor: Mapping[str, Any] = field(default_factory=dict)
    template: Mapping[str, Any] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """Plain values, for the identity of an answerer."""
        return asdict(self)

    def shown(self, parts: Sequence[Part]) -> list[str | Pixels | Clip]:
        """Give texts, single images and the clips that are given as videos, in order.

        Raises:
            AnswerError: a clip has not one time per frame.
        """
        shown: list[str | Pixels | Clip] = []
        for part in parts:
            video = isinstance(part, Clip) and self.clip_as == "video" and len(part.frames) > 1
            shown += [part] if video and isinstance(part, Clip) else flat_parts([part], self.frame_times)
        return shown


def pil_image(pixels: Pixels) -> Any:
    """A picture for processors, which guess what the axes of arrays are: sides of 1 to 3 pixels look like colours.

    >>> pil_image(np.zeros((1, 9, 3), np.uint8)).size
    (9, 4)
    """
    from PIL import Image

    for axis in (0, 1):
        if pixels.shape[axis] < LEAST_SIDE:
            pixels = np.repeat(pixels, -(-LEAST_SIDE // pixels.shape[axis]), axis)
    return Image.fromarray(pixels)


def special_texts(tokenizer: Any, *more: str | None) -> list[str]:
    """Texts that a tokenizer takes as marks, and `more`, longest first: `<image>`, `<|im_end|>` ..."""
    tokens = {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special} | {*more}
    return sorted((token for token in tokens if token and len(token) > 1), key=lambda token: (-len(token), token))


def disarmed(text: str, specials: Sequence[str]) -> str:
    """Break up marks that a question's text happens to hold, so that they are read as text.

    >>> disarmed("a <image> of it", ["<image>"])
    'a < image> of it'
    """
    for token in specials:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def video_facts(clip: Clip) -> dict[str, Any]:
    """When the frames of a clip are shown, as processors want it; one frame per second where that is not known."""
    count = len(clip.frames)
    times = clip.times or tuple(float(index) for index in range(count))
    step = (times[-1] - times[0]) / (count - 1) if count > 1 and times[-1] > times[0] else 1.0
    return {
        "fps": float(MILLISECONDS),
        "frames_indices": [round(time * MILLISECONDS) for time in times],
        "total_num_frames": round(count * step * MILLISECONDS),
        "duration": times[-1],
    }


def make_inputs(processor: Any, parts: Sequence[Part], settings: InputSettings, specials: Sequence[str]) -> Any:
    """Give the tensors of one question, a batch of one, with a chat of one message.

    Raises:
        AnswerError: a clip has not one time per frame.
        ValueError: and others, of the processor, where it cannot take them.
    """
    content: list[dict[str, str]] = []
    images: list[Any] = []
    clips: list[Clip] = []
    for part in settings.shown(parts):
        if isinstance(part, str):
            content.append({"type": "text", "text": disarmed(part, specials)})
        elif isinstance(part, Clip):
            content.append({"type": "video"})
            clips.append(part)
        else:
            content.append({"type": "image"})
            images.append(pil_image(part))
    messages = [{"role": "user", "content": content}]
    text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **settings.template)
    more: dict[str, Any] = {}
    if images:
        more["images"] = [images]
        if settings.processor:
            more["images_kwargs"] = dict(settings.processor)
    if clips:
        more["videos"] = [[[pil_image(frame) for frame in clip.frames] for clip in clips]]
        more["videos_kwargs"] = {"video_metadata": [[video_facts(clip) for clip in clips]], "do_sample_frames": False}
    start = processor.tokenizer.bos_token
    if start and text.startswith(start):  # otherwise it would stand there twice
        more["text_kwargs"] = {"add_special_tokens": False}
    return processor(text=[text], return_tensors="pt", **more)


def bound_pixels(processor: Any, settings: InputSettings) -> bool:
    """Set the bounds of pictures; False for a processor that has none."""
    wanted = {"shortest_edge": settings.min_pixels, "longest_edge": settings.max_pixels}
    wanted = {name: value for name, value in wanted.items() if value is not None}
    parts: list[Any] = [getattr(processor, name, None) for name in ("image_processor", "video_processor")]
    bounded = [part for part in parts if hasattr(part, "merge_size") and "longest_edge" in (part.size or ())]
    for part in bounded if wanted else []:
        part.size = {**{name: part.size[name] for name in ("shortest_edge", "longest_edge")}, **wanted}
        for name, edge in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):  # of older releases
            if getattr(part, name, None) is not None:
                setattr(part, name, part.size[edge])
    return bool(bounded)
