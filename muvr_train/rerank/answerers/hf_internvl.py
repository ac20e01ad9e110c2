"""Asks InternVL by the chat method of its own code (InternVL2, 2.5, 3 without -hf): pictures are cut into tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from muvr_train.rerank.answerers.hf_inputs import InputSettings, disarmed, special_texts
from muvr_train.rerank.images import flat_parts
from muvr_train.rerank.types import AnswerError, Clip, Pixels, Reply, Request

MOST_TILES = 12
IMAGE = "<image>"
"""Where the method puts the tiles of the next picture."""


class InternVLChat:
    """chat(tokenizer, pixel_values, question, generation_config, num_patches_list=...); no log-probabilities.

    Args:
        model: in eval mode, on its device.
        tokenizer: its own.
        settings: how questions are shown; `processor` may hold max_num, the number of tiles of a picture. A frame of a
            video is one tile.
    """

    def __init__(self, model: Any, tokenizer: Any, settings: InputSettings) -> None:
        self.model, self.tokenizer, self.settings = model, tokenizer, settings
        self.specials = special_texts(tokenizer, IMAGE)
        config = model.config
        self.side = int(getattr(config, "force_image_size", None) or config.vision_config.image_size)

    def ask(self, request: Request, max_tokens: int) -> Reply:
        """Answer one question.

        Raises:
            AnswerError: the method gives something other than a text, or a clip has not one time per frame.
        """
        import torch

        lines: list[str] = []
        shown: list[NDArray[np.float32]] = []
        for part in request.parts:
            video, number = isinstance(part, Clip), 0
            most = 1 if video else self.settings.processor.get("max_num", MOST_TILES)
            for item in flat_parts([part], self.settings.frame_times):
                if isinstance(item, str):
                    lines.append(disarmed(item, self.specials))
                    continue
                shown.append(tiles(item, self.side, most))
                number += 1
                lines.append(f"Frame{number}: {IMAGE}" if video else IMAGE)
        values = torch.from_numpy(np.concatenate(shown)).to(self.model.device, self.model.dtype) if shown else None
        options = {"max_new_tokens": max_tokens, "do_sample": False, "num_beams": 1}
        with torch.inference_mode():
            counts = [len(each) for each in shown]
            text = self.model.chat(self.tokenizer, values, "\n".join(lines), options, num_patches_list=counts)
        if not isinstance(text, str):
            raise AnswerError(f"the model's method chat gave {type(text).__name__} instead of a text", fatal=True)
        return Reply(text)


def grid(width: int, height: int, side: int, most: int) -> tuple[int, int]:
    """Columns and rows of tiles, nearest to a picture's ratio; more of them only for one that fills half of each.

    >>> grid(1920, 1080, 448, 12), grid(300, 300, 448, 12), grid(900, 900, 448, 12), grid(10, 900, 448, 12)
    ((4, 2), (1, 1), (2, 2), (1, 12))
    """
    pairs = [(columns, rows) for columns in range(1, most + 1) for rows in range(1, most // columns + 1)]
    best, least = (1, 1), float("inf")
    for columns, rows in sorted(pairs, key=lambda pair: pair[0] * pair[1]):
        off = abs(width / height - columns / rows)
        if off < least or (off == least and 2 * width * height > side * side * columns * rows):
            best, least = (columns, rows), off
    return best


def tiles(pixels: Pixels, side: int, most: int) -> NDArray[np.float32]:
    """Cut a picture uint8 [H, W, 3] into tiles float32 [N, 3, side, side], on ImageNet's scale; the whole last."""
    from PIL import Image
    from transformers.image_utils import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

    picture = Image.fromarray(pixels)
    columns, rows = grid(*picture.size, side, most)

    def sized(width: int, height: int) -> NDArray[np.float32]:
        scaled = np.asarray(picture.resize((width, height), Image.Resampling.BICUBIC), np.float32) / np.float32(255)
        return (scaled - np.float32(IMAGENET_DEFAULT_MEAN)) / np.float32(IMAGENET_DEFAULT_STD)

    cut = sized(side * columns, side * rows).reshape(rows, side, columns, side, 3).transpose(0, 2, 4, 1, 3)
    whole = [sized(side, side).transpose(2, 0, 1)[None]] if columns * rows > 1 else []
    return np.concatenate([cut.reshape(-1, 3, side, side), *whole])
