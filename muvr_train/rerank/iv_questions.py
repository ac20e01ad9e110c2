"""IV-Bench (arXiv 2504.15415): its items as questions with lettered options, for every setting that is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from string import ascii_uppercase
from typing import Literal

from muvr_train.benchmarks.iv_bench import IvBench, IvQuestion, option_key, shuffled_options
from muvr_train.errors import ConfigError
from muvr_train.rerank.pair_questions import DIRECT_TOKENS, LOGPROB_TOKENS, check_count, check_counts, setting_name
from muvr_train.rerank.prompts import choose_option
from muvr_train.rerank.types import Question
from muvr_train.rerank.visuals import Media

BENCHMARK = "iv_bench"
NO_CATEGORY = "(none)"
"""What a video is counted under that the file of categories lacks."""
REASONING_TOKENS = 2048


@dataclass(frozen=True)
class IvSettings:
    """How IV-Bench is asked; each of `frames` with each of `resolution` is a setting of its own.

    Attributes:
        frames: numbers of frames; the paper has 32.
        resolution: most pixels of the long side of frames and images; None for as many as there are.
        image_position: "after" the video, or "before".
        image: "given", or "none" for the ablation without.
        video: False, with `image: none`, for the ablation without anything to see: one setting.
        reasoning: the model shall reason before it answers.
        duplicates: what becomes of options that stand twice: "drop" or "keep".
        seed: of the order of the options.
        logprob: answers are judged by the probabilities of their first letter.
        max_tokens: how long an answer may be; None for 64, or 2048 with reasoning, or 4 with `logprob`.

    Raises:
        ConfigError: there is no such choice, a number is not positive, or an image is given without the video.
    """

    frames: tuple[int, ...] = (32,)
    resolution: tuple[int | None, ...] = (None,)
    image_position: Literal["after", "before"] = "after"
    image: Literal["given", "none"] = "given"
    video: bool = True
    reasoning: bool = False
    duplicates: Literal["drop", "keep"] = "drop"
    seed: int = 0
    logprob: bool = False
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name, choices in (
            ("image_position", ("after", "before")),
            ("image", ("given", "none")),
            ("duplicates", ("drop", "keep")),
        ):
            if getattr(self, name) not in choices:
                raise ConfigError(f"{name}={getattr(self, name)}: choose from {', '.join(choices)}")
        if self.image == "given" and not self.video:
            raise ConfigError("video=false leaves nothing but the text; it needs image=none, too")
        check_counts("frames", self.frames)
        check_counts("resolution", self.resolution, may_be_none=True)
        check_count("max_tokens", self.max_tokens, may_be_none=True)

    @property
    def length(self) -> int:
        """Tokens that an answer may have."""
        direct = LOGPROB_TOKENS if self.logprob else DIRECT_TOKENS
        return self.max_tokens or (REASONING_TOKENS if self.reasoning else direct)

    def grid(self) -> dict[str, tuple[int, int | None]]:
        """Name of each setting -> (frames, resolution): `after_32f`, `no_image_32f_448px`, `text_only` (0, None)."""
        marks = {"_reasoning": self.reasoning, "_logprob": self.logprob, "_kept": self.duplicates == "keep"}
        end = "".join(mark for mark, there in marks.items() if there)
        if not self.video:
            return {f"text_only{end}": (0, None)}
        start = self.image_position if self.image == "given" else "no_image"
        sizes = product(self.frames, self.resolution)
        return {f"{setting_name(start, frames, resolution)}{end}": (frames, resolution) for frames, resolution in sizes}


def iv_questions(
    bench: IvBench, media: Media, settings: IvSettings, categories: Mapping[str, str] | None = None
) -> list[Question]:
    """All questions, setting by setting, in the order of the file.

    The options of a question stand in the same order in every setting and every run with the same seed.

    Args:
        bench: the items.
        media: where files lie; a file that is missing is told by `Media.missing`, and when the question is asked.
        settings: how they are asked.
        categories: of the videos, by id; None where there are none.
    """
    known = {} if categories is None else {item.video_id: categories.get(item.video_id) for item in bench.questions}
    return [
        _question(item, media, settings, name, frames, resolution, known)
        for name, (frames, resolution) in settings.grid().items()
        for item in bench.questions
    ]


def _question(
    item: IvQuestion,
    media: Media,
    settings: IvSettings,
    setting: str,
    frames: int,
    resolution: int | None,
    categories: Mapping[str, str | None],
) -> Question:
    options, right = lettered(item, settings)
    parts = choose_option(
        item.question,
        options,
        media.video(item.video_id, frames, resolution) if settings.video else None,
        media.image(item.image_name, resolution) if settings.image == "given" else None,
        settings.image_position == "before",
        settings.reasoning,
    )
    about = {
        "benchmark": BENCHMARK,
        "task": item.task,
        "group": item.group,
        "granularity": item.granularity,
        "video": item.video_id,
        "image": item.image_name,
        "question": item.question,
        "options": options,
        "right": right,
        **({"reasoning": True} if settings.reasoning else {}),
    }
    if item.video_id in categories:
        about["category"] = categories[item.video_id] or NO_CATEGORY
    return Question(item.id, setting, parts, tuple(options), right[0], settings.length, about)


def lettered(item: IvQuestion, settings: IvSettings) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Letter -> option in the order in which they are shown, and the right letters, that of the answer itself first."""
    texts, place = shuffled_options(item, settings.seed, settings.duplicates)
    options = dict(zip(ascii_uppercase, texts, strict=False))
    truth = ascii_uppercase[place]
    equal = [letter for letter, text in options.items() if option_key(text) == option_key(options[truth])]
    return options, (truth, *(letter for letter in equal if letter != truth))
