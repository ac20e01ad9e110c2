"""MUVR-QA and IV-Bench as a config asks for them: the questions, and how they are scored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, ListConfig

from muvr_train.benchmarks.iv_bench import IvBench, read_iv_bench
from muvr_train.benchmarks.muvr_qa import QaRow, pair_rows, read_questions
from muvr_train.rerank.iv_questions import IvSettings, iv_questions
from muvr_train.rerank.iv_scores import score_iv
from muvr_train.rerank.qa_questions import QaSettings, qa_questions
from muvr_train.rerank.qa_scores import score_qa
from muvr_train.rerank.types import Answer, Question
from muvr_train.rerank.visuals import Media

Place = tuple[str, str]
Scoring = Callable[[Mapping[Place, str | None], Mapping[Place, Answer]], list[dict[str, Any]]]
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
    pairs = {name: pair_rows(kept, name)[: benchmark.limit] for name, kept in rows.items()}
    settings = QaSettings(
        benchmark.comparison,
        _several(benchmark.frames),
        _several(benchmark.resolution),
        benchmark.query_frames,
        benchmark.tags,
    )
    questions = qa_questions(pairs, media, settings)
    asked = len(questions) // len(settings.grid())
    return QuestionSet(
        f"MUVR-QA, {corpus}: {asked} questions",
        questions,
        lambda verdicts, answers: score_qa(questions, verdicts, answers),
        not notes and asked == RELEASED["muvr_qa"] and len(pairs) == 5,
        notes,
    )


def _qa_source(cfg: DictConfig) -> tuple[Mapping[str, list[QaRow]], Media, str, tuple[str, ...]]:
    if cfg.benchmark.questions is not None:
        media = Media.open(cfg.data.videos, None, cfg.data.masks)
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
        media, corpus = Media.open(cfg.data.videos, cfg.data.images), str(file)
    bench = read_iv_bench(file)
    bench = replace(bench, questions=bench.questions[: benchmark.limit])
    settings = IvSettings(
        frames=_several(benchmark.frames),
        resolution=_several(benchmark.resolution),
        **{name: benchmark[name] for name in ("image_position", "image", "video", "reasoning", "duplicates", "seed")},
    )
    questions = iv_questions(bench, media, settings)
    released = not notes and len(bench.questions) == RELEASED["iv_bench"]
    return QuestionSet(
        f"IV-Bench, {corpus}: {len(bench.questions):,} questions",
        questions,
        lambda verdicts, answers: score_iv(questions, verdicts, answers),
        released,
        (*notes, *([SUBSET] if released else []), *_fault_notes(bench, benchmark.duplicates)),
        {"faults": {name: list(ids) for name, ids in bench.faults.items()}},
    )


def _several(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, ListConfig) else (value,)


def _fault_notes(bench: IvBench, duplicates: str) -> list[str]:
    handled = {"drop": "stand once", "keep": "stand as often as in the file"}[duplicates]
    faults = "; ".join(bench.warnings)
    return [f"Faults of the question file: {faults}. Equal options {handled} (benchmark.duplicates)."] if faults else []


READERS: Mapping[str, Callable[[DictConfig], QuestionSet]] = {"muvr_qa": _read_muvr_qa, "iv_bench": _read_iv_bench}
