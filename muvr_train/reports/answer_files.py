"""Result files of a run that asked questions: for programs, for people, and for whoever wants to answer elsewhere."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from muvr_train.reports.answer_entries import prompt_of
from muvr_train.reports.write import write_json
from muvr_train.rerank.asked_digest import asked_digest, options_of
from muvr_train.rerank.scoring import right_choices
from muvr_train.rerank.types import Answer, Question

DEFINITIONS = {
    "accuracy": "right answers / questions; failed and invalid ones count as wrong",
    "reranking_score": "mean over pairs by the answers about true and false target: (yes, no) +1, (yes, yes) 0, "
    "(no, no) -1, (no, yes) -2; so 2 TPR - FPR - 1",
    "yes_no, yes_yes, no_no, no_yes": "shares of pairs by the answers about true and false target; one that is invalid "
    "or failed counts as the wrong one",
    "invalid_pairs": "share of pairs with such an answer",
    "true_positive_rate, false_positive_rate": "yes to true targets, yes to false ones",
    "chance": "mean of right options / options",
    "answered_rate": "answered / questions",
    "parse_rate": "answers in which a choice can be read / answered",
    "<metric>_se": "standard error: of muvr_qa over pairs, of iv_bench clustered by video",
    "timing.seconds_per_item": "mean seconds of an answered question, decoding included",
    "mode images_<n>f": "the query's frames and n of the target",
    "mode text_<n>f": "the query's description and n frames of the target",
    "mode after_<n>f": "n frames of the video, then the image",
    "mode before_<n>f": "the image, then n frames of the video",
    "mode no_image_<n>f": "n frames of the video, no image",
    "mode text_only": "neither video nor image",
    "counts.failed": "questions without an answer after all retries, or whose files are missing or broken",
    "counts.invalid": "answers in which no choice, or more than one, can be read; with decision=logprob also those "
    "where less than 0.05 of the first token's probability says a choice",
}
FACTS = ("partition", "query", "target", "tag", "task", "group", "granularity", "video", "image")
"""What per_question.csv says about questions that have it."""


def write_answer_results(
    folder: Path,
    questions: Sequence[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
    rows: Sequence[Mapping[str, Any]],
    meta: Mapping[str, Any],
    logprobs: bool = False,
    reasons: Mapping[tuple[str, str], str] = MappingProxyType({}),
) -> dict[str, float]:
    """Write results.json, metrics.json, per_question.csv and questions.jsonl, each at once (temp file + rename).

    per_question.csv holds no times: equal answers give equal bytes.

    Args:
        folder: made if needed.
        questions: all that were asked.
        verdicts: (id, setting) -> what the answer was read as, None where it is invalid or failed.
        answers: (id, setting) -> the answer.
        rows: of results.json.
        meta: of results.json; the definitions are added.
        logprobs: whether log-probabilities were asked for.
        reasons: (id, setting) -> why the answer is invalid, of those that are.

    Returns:
        The flat metrics `all/<benchmark>/<mode>/<partition>/<metric>`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    flat = {
        f"all/{row['benchmark']}/{row['mode']}/{row['partition']}/{name}": value
        for row in rows
        for name, value in row["metrics"].items()
        if value is not None
    }
    write_questions(folder, questions, logprobs)
    _write(folder / "per_question.csv", _csv(questions, verdicts, answers, reasons))
    write_json(folder / "results.json", {"meta": {**meta, "definitions": definitions_of(rows)}, "rows": list(rows)})
    write_json(folder / "metrics.json", flat)
    return flat


def definitions_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What the metrics, counts and modes of these rows mean."""
    names = {name for row in rows for name in row["metrics"]}
    names |= {f"{part}.{name}" for row in rows for part in ("timing", "counts") for name in row.get(part, {})}
    names |= {"<metric>_se" for name in names if name.endswith("_se")}
    modes = {str(row["mode"]) for row in rows}

    def stands(key: str) -> bool:
        kind, _, mode = key.partition("mode ")
        if not kind and mode:
            return any(one.startswith(mode.partition("<")[0]) for one in modes)
        return any(name in names for name in key.split(", "))

    return {key: text for key, text in DEFINITIONS.items() if stands(key)}


def write_questions(folder: Path, questions: Iterable[Question], logprobs: bool = False) -> None:
    """Write questions.jsonl at once: what somebody needs to answer elsewhere."""
    lines = (json.dumps(line, ensure_ascii=False) for line in _asked(questions, logprobs))
    _write(folder / "questions.jsonl", "".join(f"{line}\n" for line in lines))


def _asked(questions: Iterable[Question], logprobs: bool) -> Iterable[dict[str, Any]]:
    for question in questions:
        yield {
            "question": question.id,
            "setting": question.setting,
            "prompt": prompt_of(question),
            "choices": options_of(question) or list(question.choices),
            "max_tokens": question.max_tokens,
            "asked": asked_digest(question, logprobs),
        }


def _csv(
    questions: Sequence[Question],
    verdicts: Mapping[tuple[str, str], str | None],
    answers: Mapping[tuple[str, str], Answer],
    reasons: Mapping[tuple[str, str], str],
) -> str:
    facts = [name for name in FACTS if any(name in question.about for question in questions)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["question", "setting", *facts, "truth", "verdict", "right", "status", "answer", "reason"])
    for question in questions:
        place = question.id, question.setting
        said, answer = verdicts[place], answers[place]
        status = answer.status if said is not None or not answer.answered else "invalid"
        about = [question.about.get(name, "") for name in facts]
        right = int(said in right_choices(question))
        why = answer.reason or reasons.get(place, "")
        writer.writerow([*place, *about, question.truth, said or "", right, status, answer.text, why])
    return text.getvalue()


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    os.replace(temporary, path)
