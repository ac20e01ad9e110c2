"""Texts to tokens for open_clip's text towers: cut with the end token kept, or split into windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.running import first_line

TEXT_WINDOWS = ("cut", "mean")


def check_text_windows(text_windows: str) -> str:
    """Give it back; a ConfigError unless it is known."""
    if text_windows not in TEXT_WINDOWS:
        raise ConfigError(f"text_windows={text_windows} is not possible: choose from {', '.join(TEXT_WINDOWS)}")
    return text_windows


class TextTokenizer:
    """The tokenizer of an architecture: CLIP's byte pairs, or one of the `transformers` package (SigLIP).

    Args:
        architecture: a name that open_clip lists.

    Raises:
        DataError: a tokenizer that cannot be had.
    """

    def __init__(self, architecture: str) -> None:
        import open_clip

        try:
            self._open_clip: Any = open_clip.get_tokenizer(architecture)
        except ImportError as error:
            raise DataError(
                f"the texts of {architecture} need the package transformers ({first_line(error)}): "
                "pip install muvr-train[siglip]"
            ) from error
        except (OSError, RuntimeError, ValueError) as error:
            raise DataError(f"the tokenizer of {architecture} cannot be had: {first_line(error)}") from error
        self.length = int(self._open_clip.context_length)
        """Tokens that the text tower reads, start and end included."""
        self._own = hasattr(self._open_clip, "encode")  # CLIP's byte pairs
        self._mode = getattr(self._open_clip, "tokenizer_mode", "")

    def cut(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """Give tokens [n, length], long texts cut with the end token kept, and how many were cut."""
        return self._open_clip(list(texts)), sum(self._count(text) > 1 for text in texts)

    def split(self, text: str) -> Tensor:
        """Give tokens [windows, length] of one text: as few windows as hold all of it, of nearly equal lengths.

        Raises:
            ConfigError: a tokenizer whose windows are not known.
        """
        windows = self._count(text)
        if windows == 1:
            return self._open_clip([text])  # type: ignore[no-any-return]
        if self._own:
            start, end = self._open_clip.sot_token_id, self._open_clip.eot_token_id
            tokens = torch.tensor(self._open_clip.encode(text))
            rows = torch.zeros(windows, self.length, dtype=torch.long)
            for row, part in zip(rows, torch.tensor_split(tokens, windows), strict=True):
                row[: len(part) + 2] = torch.tensor([start, *part.tolist(), end])
            return rows
        if self._mode:
            raise ConfigError(f"text_windows=mean: not known for tokenizers of the kind {self._mode!r}; use cut")
        return self._split_hugging_face(text, windows)

    def _count(self, text: str) -> int:
        """How many windows hold a text; more than one: it does not fit."""
        pieces = len(self._open_clip.encode(text)) if self._own else self._pieces(text)
        return max(1, -(-pieces // (self.length - self._special())))

    def _special(self) -> int:
        """How many tokens are not of the text: start and end and what else there is."""
        if self._own:
            return 2
        return 3 if self._mode == "clips" else int(self._open_clip.tokenizer.num_special_tokens_to_add())

    def _pieces(self, text: str) -> int:
        return len(self._open_clip.tokenizer(self._open_clip.clean_fn(text), add_special_tokens=False).input_ids)

    def _split_hugging_face(self, text: str, windows: int) -> Tensor:
        tokenizer = self._open_clip.tokenizer
        made = tokenizer(
            self._open_clip.clean_fn(text),
            truncation=True,
            max_length=-(-self._pieces(text) // windows) + self._special(),
            return_overflowing_tokens=True,
        )
        padded = tokenizer.pad({"input_ids": made.input_ids}, padding="max_length", max_length=self.length)
        rows = torch.tensor(padded["input_ids"])
        if self._open_clip.strip_sep_token:
            rows = torch.where(rows == tokenizer.sep_token_id, torch.zeros_like(rows), rows)
        return rows
