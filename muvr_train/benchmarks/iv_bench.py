"""The question file of IV-Bench (arXiv 2504.15415): a question about an image and a video, with options.

A line is `{video id: [questions]}`. The released file has 1,686 of the paper's 2,560 questions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from muvr_train.benchmarks.json_texts import load_json
from muvr_train.errors import ConfigError, DataError, shorten

PERCEPTION, REASONING = "perception", "reasoning"
GROUPS = (PERCEPTION, REASONING)
FILE_TASKS: Mapping[str, tuple[str, str]] = {
    "Existence": ("Existence", PERCEPTION),
    "Reverse Existence": ("Reverse Existence", PERCEPTION),
    "NLI": ("NLI", PERCEPTION),
    "Spatial relationship": ("Spatial relationship", PERCEPTION),
    "Keyframe extraction": ("Keyframe extraction", PERCEPTION),
    "Constrained OCR": ("Constrained OCR", PERCEPTION),
    "Details Event": ("Detailed Events", PERCEPTION),
    "Counting": ("Counting", REASONING),
    "Space-time computing": ("Space-time computing", REASONING),
    "Summary": ("Summary", REASONING),
    "Instruction manual": ("Instruction Understanding", REASONING),
    "Attribute Change": ("Attribute Change", REASONING),
    "Temporal Reasoning": ("Temporal Reasoning", REASONING),
}
"""`question_type` in the file -> (the paper's name, group)."""
TASKS = tuple(name for name, _ in FILE_TASKS.values())
GRANULARITIES = ("Video Frame", "Video Clip", "Whole Video")
MOST_OPTIONS = 26
TEXTS = ("image_name", "question", "question_type", "granularity", "answer")
RELEASED_FILE = "test_data.jsonl"
IN_DISTRACTORS, TWICE = "the answer among the distractors", "distractors that stand twice"
LOOSELY = " (case and outer spaces ignored)"
BLANK = "blank distractors (left out)"

Duplicates = Literal["drop", "keep"]
_TASK_OF = {name.casefold(): task for task in FILE_TASKS for name in (task, FILE_TASKS[task][0])}
_GRANULARITY_OF = {name.casefold(): name for name in GRANULARITIES}


@dataclass(frozen=True)
class IvQuestion:
    """One question.

    Attributes:
        id: `<video id>/<data_id>`.
        video_id: of the video.
        image_name: file name of the image.
        question: its text.
        task: name in the paper.
        file_task: name in the file.
        group: "perception" or "reasoning".
        granularity: how much of the video it is about; one spelling for each, those of `GRANULARITIES` first of all.
        answer: the right option.
        distractors: the other options as the file has them, blank ones left out.
        where: file and line, for messages.
    """

    id: str
    video_id: str
    image_name: str
    question: str
    task: str
    file_task: str
    group: str
    granularity: str
    answer: str
    distractors: tuple[str, ...]
    where: str = field(default="", compare=False)


@dataclass(frozen=True)
class IvBench:
    """All questions of a file, in its order.

    Attributes:
        questions: see `IvQuestion`.
        faults: what is odd about the file -> ids of the questions.
    """

    questions: tuple[IvQuestion, ...]
    faults: Mapping[str, tuple[str, ...]]

    @property
    def warnings(self) -> tuple[str, ...]:
        """A line for each kind of fault that the file has, with counts and the first ids."""
        counted = ((name, ids) for name, ids in self.faults.items() if ids)
        return tuple(f"{len(ids)} questions have {name}: {shorten(list(ids), 3)}" for name, ids in counted)


def read_iv_bench(path: Path) -> IvBench:
    """Read the question file of IV-Bench, or one of one's own in its form.

    Args:
        path: the file, or the folder that holds `test_data.jsonl`.

    Raises:
        DataError: it cannot be read; a line or a question is malformed (file and line are named), has an unknown task,
            fewer than two different options or more than 26; an id stands twice; there is no question.
    """
    path = Path(path)
    file = path / RELEASED_FILE if path.is_dir() else path
    if path.is_dir() and not file.exists():
        raise DataError(f"{path}: the folder holds no {RELEASED_FILE}; give the file of the questions")
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    found: dict[str, IvQuestion] = {}
    blank: list[str] = []
    for number, line in enumerate(lines, 1):
        for question, has_blank in _questions(line, f"{file}:{number}") if line.strip() else ():
            if (other := found.setdefault(question.id, question)) is not question:
                raise DataError(f"{question.where}: question {question.id} stands in {other.where}, too: keep one")
            blank += [question.id] * has_blank
    if not found:
        raise DataError(f"{file} holds no question")
    questions = tuple(found.values())
    return IvBench(questions, {**_faults(questions), BLANK: tuple(blank)})


def option_key(text: str) -> str:
    """What is compared where case and outer spaces are ignored: equal for options that say the same."""
    return text.strip().casefold()


def shuffled_options(question: IvQuestion, seed: int, duplicates: Duplicates = "drop") -> tuple[tuple[str, ...], int]:
    """Order the options of a question at random.

    They are sorted by the SHA-256 of seed, question id and text: the same on every machine, whatever else is asked and
    however the file orders its distractors.

    Args:
        question: with answer and distractors.
        seed: another one gives another order.
        duplicates: "drop" leaves one of several options that are equal but for case and outer spaces: the answer
            itself, else the one that stands first in the file; "keep" leaves all.

    Returns:
        (option texts in the order of the letters A, B, C ..., index of the right one). With "keep" other options may
        be equally right: those with its `option_key`.

    Raises:
        ConfigError: another word for `duplicates`.
    """
    if duplicates not in ("drop", "keep"):
        raise ConfigError(f"duplicates must be drop or keep, got {duplicates!r}")
    options = [question.answer, *question.distractors]
    if duplicates == "drop":
        first: dict[str, str] = {}
        for text in options:
            first.setdefault(option_key(text), text)
        options = list(first.values())
    drawn: list[tuple[bytes, bool, str]] = []
    for place, text in enumerate(options):
        facts = json.dumps([seed, question.id, text, options[:place].count(text)])
        drawn.append((hashlib.sha256(facts.encode()).digest(), place == 0, text))
    drawn.sort()
    return tuple(text for _, _, text in drawn), [right for _, right, _ in drawn].index(True)


def _questions(line: str, where: str) -> Iterator[tuple[IvQuestion, bool]]:
    """The questions of a line, each with whether it has blank distractors."""
    try:
        content = load_json(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where} is not JSON: {error.msg}") from error
    if not isinstance(content, dict) or not all(isinstance(entries, list) for entries in content.values()):
        raise DataError(f"{where}: a line is an object {{video id: [questions]}}")
    for video, entries in content.items():
        if not video.strip():
            raise DataError(f"{where}: a video id is empty")
        for entry in entries:
            yield _question(video, entry, where)


def _question(video: str, entry: Any, where: str) -> tuple[IvQuestion, bool]:
    if not isinstance(entry, dict):
        raise DataError(f"{where}: a question of video {video} is no object: {entry!r:.60}")
    number = entry.get("data_id")
    if not isinstance(number, (int, str)) or isinstance(number, bool) or not str(number).strip():
        raise DataError(f"{where}: a question of video {video} needs a data_id (number or text), got {number!r}")
    name = f"{video}/{number}"
    for key in TEXTS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise DataError(f"{where}: question {name} needs {key}, a text, got {entry.get(key)!r}")
    distractors = entry.get("distractors")
    if not isinstance(distractors, list) or not all(isinstance(text, str) for text in distractors):
        raise DataError(f"{where}: question {name} needs distractors, a list of texts, got {distractors!r:.60}")
    task = _TASK_OF.get(entry["question_type"].strip().casefold())
    if task is None:
        raise DataError(
            f"{where}: question {name} has the unknown question_type {entry['question_type']!r}; the tasks are "
            f"{', '.join(FILE_TASKS)}"
        )
    granularity = " ".join(entry["granularity"].split())
    kept = tuple(text for text in distractors if text.strip())
    question = IvQuestion(
        id=name,
        video_id=video,
        image_name=entry["image_name"],
        question=entry["question"],
        task=FILE_TASKS[task][0],
        file_task=entry["question_type"],
        group=FILE_TASKS[task][1],
        granularity=_GRANULARITY_OF.get(granularity.casefold(), granularity.title()),
        answer=entry["answer"],
        distractors=kept,
        where=where,
    )
    _check_options(question)
    return question, len(kept) < len(distractors)


def _check_options(question: IvQuestion) -> None:
    options = (question.answer, *question.distractors)
    if len(set(map(option_key, options))) < 2:
        raise DataError(f"{question.where}: question {question.id} has no option but the answer {question.answer!r}")
    if len(options) > MOST_OPTIONS:
        raise DataError(
            f"{question.where}: question {question.id} has {len(options)} options; there are letters for {MOST_OPTIONS}"
        )


def _faults(questions: Sequence[IvQuestion]) -> dict[str, tuple[str, ...]]:
    loose = [(option_key(item.answer), tuple(map(option_key, item.distractors))) for item in questions]
    exact = [(item.answer, item.distractors) for item in questions]
    ids = [item.id for item in questions]
    faults = {}
    for how, pairs in (("", exact), (LOOSELY, loose)):
        options = list(zip(ids, pairs, strict=True))
        faults[IN_DISTRACTORS + how] = tuple(name for name, (answer, others) in options if answer in others)
        faults[TWICE + how] = tuple(name for name, (_, others) in options if len(set(others)) < len(others))
    return faults
