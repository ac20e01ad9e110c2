"""MUVR-QA and IV-Bench as a config asks for them: the questions, and how they are scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig

from muvr_train.benchmarks.iv_bench import IvBench, read_iv_bench
from muvr_train.benchmarks.iv_categories import read_categories
from muvr_train.benchmarks.muvr_qa import QaPair, QaRow, pair_rows, read_questions
from muvr_train.errors import shorten
from muvr_train.rerank.iv_questions import NO_CATEGORY, IvSettings, iv_questions
from muvr_train.rerank.iv_scores import score_iv
from muvr_train.rerank.qa_questions import QaSettings, qa_questions
from muvr_train.rerank.qa_scores import score_qa
from muvr_train.rerank.types import Answer, Place, Question
from muvr_train.rerank.visuals import Media

Scoring = Callable[[Mapping[Place, str | None], Mapping[Place, Answer]], list[dict[str, Any]]]
PROTOCOL: Mapping[str, Mapping[str, Any]] = {
    "muvr_qa": {"comparison": "images", "query_frames": 1, "tags": True, "decision": "text"},
    "iv_bench": {
        "image": "given",
        "image_position": "after",
        "video": True,
        "reasoning": False,
        "decision": "text",
    },
}
"""With which settings published figures were measured."""
PAPER_FRAMES = 32
RELEASED = {"muvr_qa": 200, "iv_bench": 1686}
"""Questions of the released files."""
SUBSET = (
    "The released question file of IV-Bench has 1,686 questions; the published figures are over the 2,560 of the paper."
)


@dataclass(frozen=True)
class QuestionSet:
    """What is asked.

    Attributes:
        corpus: what it is, for people.
        questions: setting by setting.
        score: rows of results.json from verdicts and answers, by (id, setting).
        released: whether it is a whole released question file, beside which published figures may stand.
        notes: what stands below the tables.
        facts: more of results.json's `meta`.
    """

    corpus: str
    questions: list[Question]
    score: Scoring
    released: bool
    notes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> tuple[str, ...]:
        """Names of the settings, in order."""
        return tuple(dict.fromkeys(question.setting for question in self.questions))


def read_question_set(cfg: DictConfig) -> QuestionSet:
    """Read `benchmark.questions`, or take those of the built-in corpus.

    Raises:
        DataError: the file is missing or broken.
    """
    return READERS[cfg.benchmark.name](cfg)


def _read_muvr_qa(cfg: DictConfig) -> QuestionSet:
    benchmark = cfg.benchmark
    rows, media, corpus, notes = _qa_source(cfg)
    every = {name: pair_rows(kept, name) for name, kept in rows.items()}
    pairs = limited(every, benchmark.limit)
    settings = QaSettings(
        benchmark.comparison,
        _several(benchmark.frames),
        _several(benchmark.resolution),
        benchmark.query_frames,
        benchmark.tags,
        benchmark.decision == "logprob",
    )
    questions = qa_questions(pairs, media, settings)
    asked, there = (2 * sum(map(len, kept.values())) for kept in (pairs, every))
    unlike = [] if notes else unlike_published(benchmark, asked)
    return QuestionSet(
        f"MUVR-QA, {corpus}: {_count(asked, there)}",
        questions,
        lambda verdicts, answers: score_qa(questions, verdicts, answers),
        not notes and not unlike,
        (*notes, *_limit_note(asked, there), *_unlike_notes(unlike), *_mask_note(cfg, questions)),
    )


def limited(pairs: Mapping[str, Sequence[QaPair]], limit: int | None) -> dict[str, list[QaPair]]:
    """Take the first pairs of each partition, equally many as far as there are, of so many questions or one more.

    Args:
        pairs: by partition.
        limit: questions, two of each pair; None for all.
    """
    wanted = None if limit is None else -(-limit // 2)
    turns = sorted((turn, place) for place, kept in enumerate(pairs.values()) for turn in range(len(kept)))[:wanted]
    counts = Counter(place for _, place in turns)
    return {name: list(kept[: counts[place]]) for place, (name, kept) in enumerate(pairs.items()) if counts[place]}


def _qa_source(cfg: DictConfig) -> tuple[Mapping[str, list[QaRow]], Media, str, tuple[str, ...]]:
    if cfg.benchmark.questions is not None:
        media = Media.open(cfg.data.videos, None, cfg.data.masks, empty=cfg.benchmark.missing == "wrong")
        return read_questions(Path(cfg.benchmark.questions)), media, str(cfg.benchmark.questions), ()
    from muvr_train.demo.questions import NOTE, demo_qa

    rows, corpus = demo_qa()
    return rows, Media.open(corpus.videos, None, corpus.masks), "built-in corpus", (NOTE,)


def _read_iv_bench(cfg: DictConfig) -> QuestionSet:
    benchmark = cfg.benchmark
    notes: tuple[str, ...] = ()
    if benchmark.questions is None:
        from muvr_train.demo.questions import NOTE, demo_iv

        file, videos, images = demo_iv()
        media, corpus, notes = Media.open(videos, images), "built-in corpus", (NOTE,)
    else:
        file = Path(benchmark.questions)
        media = Media.open(cfg.data.videos, cfg.data.images, empty=benchmark.missing == "wrong")
        corpus = str(file)
    bench = read_iv_bench(file)
    there = len(bench.questions)
    bench = replace(bench, questions=bench.questions[: benchmark.limit])
    settings = IvSettings(
        frames=_several(benchmark.frames),
        resolution=_several(benchmark.resolution),
        logprob=benchmark.decision == "logprob",
        **{name: benchmark[name] for name in ("image_position", "image", "video", "reasoning", "duplicates", "seed")},
    )
    categories = None
    if benchmark.categories is not None:
        asked = dict.fromkeys(item.video_id for item in bench.questions)
        categories = read_categories(Path(benchmark.categories), asked)
        if lacking := [video for video in asked if video not in categories]:
            text = f"{len(lacking)} of {len(asked)} videos have no category: {shorten(lacking, 3)}"
            notes = (*notes, f"{text}. They are counted as '{NO_CATEGORY}'.")
    questions = iv_questions(bench, media, settings, categories)
    unlike = [] if benchmark.questions is None else unlike_published(benchmark, len(bench.questions))
    released = benchmark.questions is not None and not unlike
    return QuestionSet(
        f"IV-Bench, {corpus}: {_count(len(bench.questions), there)}",
        questions,
        lambda verdicts, answers: score_iv(questions, verdicts, answers),
        released,
        (
            *notes,
            *_limit_note(len(bench.questions), there),
            *([SUBSET] if released else _unlike_notes(unlike)),
            *_fault_notes(bench, benchmark.duplicates),
        ),
        {"faults": {name: list(ids) for name, ids in bench.faults.items()}},
    )


def unlike_published(benchmark: DictConfig, questions: int) -> list[str]:
    """Say what of a run is not as published figures were measured; nothing where it is.

    Args:
        benchmark: its settings.
        questions: how many are asked in each setting.
    """
    whole = RELEASED[benchmark.name]
    found = [] if questions == whole else [f"{questions:,} questions, the released file has {whole:,}"]
    for key, value in PROTOCOL[benchmark.name].items():
        if benchmark[key] != value:
            found.append(f"benchmark.{key}={str(benchmark[key]).lower()}")
    if benchmark.name == "iv_bench" and PAPER_FRAMES not in _several(benchmark.frames):
        found.append(f"benchmark.frames without {PAPER_FRAMES}")
    return found


def _unlike_notes(unlike: list[str]) -> list[str]:
    return (
        [f"No published figures stand beside these, which were measured otherwise: {'; '.join(unlike)}."]
        if unlike
        else []
    )


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, ListConfig) else (value,)


def _count(asked: int, there: int) -> str:
    limited_to = f"limited to {asked:,} of {there:,} questions (benchmark.limit)"
    return f"{asked:,} questions" if asked == there else limited_to


def _limit_note(asked: int, there: int) -> list[str]:
    return [] if asked == there else [f"Limited to {asked:,} of {there:,} questions (benchmark.limit)."]


def _mask_note(cfg: DictConfig, questions: Sequence[Question]) -> list[str]:
    """Say how many queries have a mask, where masks are given and some have none."""
    queries = {(one.about["partition"], one.about["query"]): one.about["outlined"] for one in questions}
    outlined = sum(queries.values())
    if cfg.data.masks is None or outlined == len(queries):
        return []
    return [f"data.masks={cfg.data.masks} has masks of {outlined} of the {len(queries)} queries; the others show none."]


def _fault_notes(bench: IvBench, duplicates: str) -> list[str]:
    faulty = len({name for ids in bench.faults.values() for name in ids})
    handled = {"drop": "equal options stand once", "keep": "equal options stand as often as in the file"}[duplicates]
    text = f"{faulty:,} questions of the file have faults in their options ({handled}): meta.faults in results.json."
    return [text] if faulty else []


READERS: Mapping[str, Callable[[DictConfig], QuestionSet]] = {"muvr_qa": _read_muvr_qa, "iv_bench": _read_iv_bench}
