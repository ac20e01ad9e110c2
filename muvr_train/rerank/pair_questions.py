"""Whether one database video matches one query: what reranking asks, and MUVR-QA in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from muvr_train.benchmarks.types import Query
from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.prompts import Parts, describe, match_by_images, match_by_text
from muvr_train.rerank.types import Question
from muvr_train.rerank.visuals import Media

Comparison = Literal["images", "text"]
COMPARISONS = ("images", "text")
YES_NO = ("yes", "no")
DIRECT_TOKENS = 64
LOGPROB_TOKENS = 4
"""What an answer may have of which only the first word's probabilities count: marks such as `**` may stand before."""


@dataclass(frozen=True)
class PairSettings:
    """How a query and a video are shown.

    Attributes:
        comparison: "images": the query's frames and its description; "text": the description alone.
        frames: of the database video.
        resolution: most pixels of the long side of every frame, None for as many as there are.
        query_frames: of the query's video.
        max_tokens: how long an answer may be.

    Raises:
        ConfigError: there is no such comparison, or a number is not positive.
    """

    comparison: Comparison = "images"
    frames: int = 6
    resolution: int | None = None
    query_frames: int = 1
    max_tokens: int = DIRECT_TOKENS

    def __post_init__(self) -> None:
        if self.comparison not in COMPARISONS:
            raise ConfigError(f"comparison={self.comparison}: choose from {', '.join(COMPARISONS)}")
        for name in ("frames", "resolution", "query_frames", "max_tokens"):
            check_count(name, getattr(self, name), may_be_none=name == "resolution")

    @property
    def name(self) -> str:
        """The setting's name in results: `images_6f`, `text_12f_448px`."""
        return setting_name(self.comparison, self.frames, self.resolution)


def check_count(name: str, value: object, may_be_none: bool = False) -> None:
    """Raise a ConfigError unless a setting is a whole number of at least 1."""
    if not (value is None and may_be_none) and (type(value) is not int or value < 1):
        raise ConfigError(f"{name} must be a whole number of at least 1{' or null' * may_be_none}, got {value!r}")


def check_counts(name: str, values: Sequence[int | None], may_be_none: bool = False) -> None:
    """The same of a list of values, of which there must be one."""
    if not values:
        raise ConfigError(f"{name} must be a number or a list of numbers, got an empty list")
    for value in values:
        check_count(name, value, may_be_none)


def setting_name(start: str, frames: int, resolution: int | None) -> str:
    """`<start>_<frames>f`, and `_<resolution>px` where there is one."""
    return f"{start}_{frames}f" + ("" if resolution is None else f"_{resolution}px")


def match_parts(query: Query, expression: str, video: str, media: Media, settings: PairSettings) -> tuple[Parts, bool]:
    """The prompt about a query and a video, and whether a region is outlined in it.

    Args:
        query: with its text.
        expression: tag expression, "" for none.
        video: id of the database video.
        media: where files lie.
        settings: how they are shown.

    Raises:
        DataError: the expression cannot be read, or a query without description is to be compared by text.
    """
    one = settings.frames == 1
    candidate = media.video(video, settings.frames, settings.resolution)
    text = query.text or ""
    if settings.comparison == "text":
        if not (describe(text, outlined=False) or expression):
            raise DataError(f"query {query.id} has no description: comparison=text cannot ask about it")
        return match_by_text(candidate, text, expression, one), False
    masks = media.masks_of(query.id, query.mask)
    shown = media.query(query.video_id, masks, settings.query_frames, settings.resolution)
    return match_by_images(shown, candidate, text, expression, masks is not None, one), masks is not None


def pair_question(
    query: Query, expression: str | None, video: str, truth: bool, media: Media, settings: PairSettings
) -> Question:
    """Ask whether a database video matches a query.

    Args:
        query: of a benchmark.
        expression: tag expression of its judgement, None for none.
        video: id of the database video.
        truth: whether it is annotated as a match; only references and scoring read it.
        media: where files lie.
        settings: how they are shown.

    Raises:
        DataError: see `match_parts`.
    """
    tag = expression or ""
    parts, outlined = match_parts(query, tag, video, media, settings)
    about = {
        "benchmark": "rerank",
        "partition": query.partition,
        "query": query.id,
        "video": video,
        "target": video,
        "expression": tag,
        "text": query.text or "",
        "outlined": outlined,
    }
    name = f"{query.id}|{video}|{tag}"
    return Question(name, settings.name, parts, YES_NO, YES_NO[not truth], settings.max_tokens, about)
