"""MUVR-QA (arXiv 2510.21406): its pairs as questions, for every setting that is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from muvr_train.benchmarks.muvr_qa import QaPair, QaRow, question_id
from muvr_train.benchmarks.types import Query
from muvr_train.errors import DataError
from muvr_train.rerank.pair_questions import (
    DIRECT_TOKENS,
    LOGPROB_TOKENS,
    YES_NO,
    Comparison,
    PairSettings,
    check_count,
    check_counts,
    match_parts,
)
from muvr_train.rerank.types import Question
from muvr_train.rerank.visuals import Media

BENCHMARK = "muvr_qa"


@dataclass(frozen=True)
class QaSettings:
    """How MUVR-QA is asked; each of `frames` with each of `resolution` is a setting of its own.

    Attributes:
        comparison: "images": a frame of the query and its description; "text": the description alone.
        frames: numbers of target frames; the paper has 1, 6 and 12.
        resolution: most pixels of the long side of every frame; None for as many as there are.
        query_frames: of the query's video.
        tags: False leaves the tag of tagged questions out of the prompt.
        logprob: answers are judged by the probabilities of their first word.
        max_tokens: how long an answer may be; None for 64, or 4 with `logprob`.

    Raises:
        ConfigError: there is no such comparison, or a number is not positive.
    """

    comparison: Comparison = "images"
    frames: tuple[int, ...] = (6,)
    resolution: tuple[int | None, ...] = (None,)
    query_frames: int = 1
    tags: bool = True
    logprob: bool = False
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        check_counts("frames", self.frames)
        check_counts("resolution", self.resolution, may_be_none=True)
        check_count("max_tokens", self.max_tokens, may_be_none=True)
        self.grid()

    def grid(self) -> dict[str, PairSettings]:
        """Name -> setting, those of few frames first as they were given: `images_6f`, `text_12f_448px_no_tags`."""
        length = self.max_tokens or (LOGPROB_TOKENS if self.logprob else DIRECT_TOKENS)
        end = "_no_tags" * (not self.tags) + "_logprob" * self.logprob
        settings = [
            PairSettings(self.comparison, frames, resolution, self.query_frames, length)
            for frames, resolution in product(dict.fromkeys(self.frames), dict.fromkeys(self.resolution))
        ]
        return {f"{setting.name}{end}": setting for setting in settings}


def qa_questions(pairs: Mapping[str, Sequence[QaPair]], media: Media, settings: QaSettings) -> list[Question]:
    """All questions, setting by setting, in the order of the pairs, the true one of each first.

    Args:
        pairs: by partition.
        media: where files lie; a file that is missing is told by `Media.missing`, and when the question is asked.
        settings: how they are asked.

    Raises:
        DataError: a tag cannot be read, or a query has several masks; file and line are named.
    """
    return [
        _question(pair, row, media, name, setting, settings.tags)
        for name, setting in settings.grid().items()
        for of_partition in pairs.values()
        for pair in of_partition
        for row in (pair.true, pair.false)
    ]


def _question(pair: QaPair, row: QaRow, media: Media, name: str, setting: PairSettings, tags: bool) -> Question:
    query = Query(f"{pair.partition}/{row.query}", pair.partition, "", row.text)
    try:
        parts, outlined = match_parts(query, row.tag if tags else "", f"{pair.partition}/{row.target}", media, setting)
    except DataError as error:
        raise DataError(f"{row.where or question_id(pair.partition, row)}: {error}") from error
    about = {
        "benchmark": BENCHMARK,
        "partition": pair.partition,
        "query": row.query,
        "target": row.target,
        "tag": row.tag,
        "text": row.text,
        "label": row.label,
        "pair": pair.id,
        "outlined": outlined,
    }
    truth = YES_NO[1 - row.label]
    return Question(question_id(pair.partition, row), name, parts, YES_NO, truth, setting.max_tokens, about)
