"""The first videos of every query as questions, and what their answers say and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muvr_train.benchmarks.types import Query
from muvr_train.rerank.pair_questions import PairSettings, pair_question
from muvr_train.rerank.parsing import yes_probability
from muvr_train.rerank.reranking import Columns, Floats, top_pairs
from muvr_train.rerank.types import Answer, Place, Question
from muvr_train.rerank.visuals import Media
from muvr_train.results import Kept

VALUES = {"yes": 1.0, "no": 0.0}
UNKNOWN = float("nan")


@dataclass(frozen=True)
class Top:
    """The first videos of the queries (or queries with tag expressions) of one partition.

    Attributes:
        kept: its scores, R rows.
        columns: R arrays, see `reranking.top_pairs`.
        questions: R lists of as many questions.
    """

    kept: Kept
    columns: Sequence[Columns]
    questions: Sequence[Sequence[Question]]

    def values(self, by_place: Mapping[Place, float]) -> list[Floats]:
        """Put a value of each question where its video stands: R arrays."""
        return [np.array([by_place[place_of(one)] for one in row], dtype=np.float64) for row in self.questions]


def place_of(question: Question) -> Place:
    """What names a question in a run."""
    return question.id, question.setting


def find_tops(kept: Sequence[Kept], k: int, media: Media, settings: PairSettings) -> list[Top]:
    """Choose the first k videos of every row, and make the questions about them.

    Partitions may share queries and differ in what a match is (the tasks of FIVR and CC_WEB_VIDEO). No answerer that
    looks at videos can know the task, so their questions about one pair are the same, see `distinct` and `one_by_one`.

    Args:
        kept: scores of the partitions of one mode.
        k: videos of each row.
        media: where files lie.
        settings: how they are shown.

    Raises:
        DataError: a question cannot be put, see `pair_questions.match_parts`.
    """
    times = Counter(query.id for one in kept for query in one.partition.queries)
    shared = frozenset(name for name, number in times.items() if number > 1)
    return [_top(one, k, media, settings, shared) for one in kept]


def one_by_one(tops: Sequence[Top]) -> list[Top]:
    """Give tasks that share a pair a question each, with `|<task>` behind its id: for answerers that know the truth."""

    def alone(question: Question, task: str) -> Question:
        return replace(question, id=f"{question.id}|{task}") if "tasks" in question.about else question

    return [
        replace(top, questions=[[alone(one, top.kept.partition.name) for one in row] for row in top.questions])
        for top in tops
    ]


def distinct(tops: Sequence[Top]) -> list[Question]:
    """Each question once, in order; one of several tasks is right with yes if the pair is a match in any of them."""
    found: dict[Place, Question] = {}
    for question in (question for top in tops for row in top.questions for question in row):
        first = found.setdefault(place_of(question), question)
        if first is not question:
            level = question.about["level"] if first.about["level"] is None else first.about["level"]
            about = {**first.about, "tasks": f"{first.about['tasks']}, {question.about['tasks']}", "level": level}
            truth = "yes" if "yes" in (first.truth, question.truth) else "no"
            found[place_of(question)] = replace(first, truth=truth, about=about)
    return list(found.values())


def _top(kept: Kept, k: int, media: Media, settings: PairSettings, shared: Collection[str]) -> Top:
    queries: Mapping[str, Query] = {query.id: query for query in kept.partition.queries}
    judged, columns, questions = kept.judged, top_pairs(kept.judged, k), []
    for row, judgement in enumerate(judged.judgements):
        asked = []
        for rank, column in enumerate(columns[row].tolist(), 1):
            video, truth = judged.database[column], bool(judged.relevance[row, column] == 1)
            question = pair_question(queries[judgement.query], judgement.expression, video, truth, media, settings)
            facts = {"rank": rank, "score": float(judged.scores[row, column]), "level": judgement.positives.get(video)}
            if judgement.query in shared:
                facts["tasks"] = f"{kept.partition.name} {question.truth}"
            asked.append(replace(question, about={**question.about, **facts}))
        questions.append(asked)
    return Top(kept, columns, questions)


def yes_value(answer: Answer, said: str | None, by_probability: bool, languages: Sequence[str] = ("en",)) -> float:
    """How likely an answer says that its video is a match: 1 for yes, 0 for no; NaN where it says nothing.

    Args:
        answer: to the question.
        said: what it was read as, None where it is invalid or failed.
        by_probability: give the share of yes among the first token's probabilities of yes and no.
        languages: whose words count there.
    """
    if not by_probability:
        return VALUES.get(said or "", UNKNOWN)
    share = yes_probability(answer.tokens, languages) if answer.answered else None
    return UNKNOWN if share is None else share


def counts_of(answers: Mapping[Place, Answer], values: Mapping[Place, float], known: Collection[str]) -> dict[str, int]:
    """Count pairs, failures, answers that say nothing, and calls: none for `known` keys or what could not be shown.

    Args:
        answers: to all questions.
        values: what they are worth, NaN where they say nothing.
        known: keys that had an answer before.
    """
    failed = sum(not answer.answered for answer in answers.values())
    from_file = sum(answer.key in known for answer in answers.values())
    used = sum(not np.isnan(value) for value in values.values())
    return {
        "pairs": len(answers),
        "calls": sum(one.key not in known and (one.answered or one.seconds is not None) for one in answers.values()),
        "from_file": from_file,
        "failed": failed,
        "invalid": len(answers) - failed - used,
        "used": used,
    }


def queries_of(tops: Sequence[Top]) -> tuple[int, str]:
    """How many queries (of MUVR-Filter: queries with an expression) pairs are asked for, and what to call one."""
    rows = {(one.query, one.expression) for top in tops for one in top.kept.judged.judgements}
    return len(rows), "query with a tag expression" if any(tag is not None for _, tag in rows) else "query"


def costs_of(answers: Mapping[Place, Answer], queries: int) -> dict[str, float | None]:
    """Pairs, seconds and tokens of a query as `queries_of` counts them; None where no answer says."""
    costs: dict[str, float | None] = {"pairs_per_query": len(answers) / queries}
    for name in ("seconds", "prompt_tokens", "completion_tokens"):
        known = [value for answer in answers.values() if (value := getattr(answer, name)) is not None]
        costs[f"{name}_per_query"] = sum(known) / queries if known else None
    return costs
