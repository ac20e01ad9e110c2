"""The file of answers: a line of JSON for each, written as soon as it is there, so that no run has to ask twice."""

from __future__ import annotations

import fcntl
import json
import math
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from muvr_train.benchmarks.json_texts import load_json
from muvr_train.errors import DataError
from muvr_train.rerank.types import ANSWERED, FAILED, Answer

NEEDED = ("question", "setting", "key", "status")
KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    **dict.fromkeys((*NEEDED, "text", "reason", "finish", "answerer", "by", "asked"), (str, "a text")),
    "tokens": (dict, "an object of texts and log-probabilities"),
    "choices": ((dict, list), "an object of letters and texts, or a list"),
    "seconds": ((int, float), "a number"),
    "prompt_tokens": (int, "a number"),
    "completion_tokens": (int, "a number"),
}
KNOWN = tuple(field.name for field in fields(Answer))
START = b'{"question": "'
"""What `line_of` begins with."""


class AnswerFile:
    """An answer file that this run alone may write; `append` may be called from several threads.

    What is there is read, and a last line that a killed run left unfinished is cut off; a file that is refused stays
    as it is. `close`, or the end of the process, lets others write.

    Args:
        path: made, with its folder, if absent.

    Attributes:
        path: see above.

    Raises:
        DataError: a line is broken (file and line are named), another run writes the file, or it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open_locked(path)
        self._lock = threading.Lock()
        self._answers: dict[str, Answer] = {}
        try:
            for answer in read_answers(path):
                self._remember(answer)
            self._mend()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> AnswerFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def find(self, key: str) -> Answer | None:
        """Give what came of the question with this key: the last answer, or the last failure where there is none."""
        return self._answers.get(key)

    def answers(self) -> list[Answer]:
        """What came of every question, under each of its keys."""
        with self._lock:
            return list(self._answers.values())

    def append(self, answer: Answer) -> None:
        """Write one line at once.

        Raises:
            DataError: the disk is full, or the file is closed.
        """
        line = memoryview(f"{line_of(answer)}\n".encode(errors="backslashreplace"))
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._file, line) :]
            except OSError as error:
                raise DataError(f"{self.path} cannot be written: {error.strerror}") from error
            self._remember(answer)

    def close(self) -> None:
        """Let others write. A file without a line is removed. May be called twice."""
        with self._lock:
            if self._file < 0:
                return
            if os.fstat(self._file).st_size == 0:
                self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def _remember(self, answer: Answer) -> None:
        before = self._answers.get(answer.key)
        if before is None or answer.answered or not before.answered:
            self._answers[answer.key] = answer

    def _mend(self) -> None:
        """End the last line, or cut it off where a killed run left only a part of it.

        Raises:
            DataError: there is nothing but that part, and no answer begins so.
        """
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        rest = content[end:]
        if not rest:
            return
        if _is_whole(rest):
            os.write(self._file, b"\n")
        elif self._answers or rest.startswith(START) or START.startswith(rest):
            os.ftruncate(self._file, end)
        else:
            line = content.count(b"\n") + 1
            raise DataError(f"{self.path}:{line} is no line of an answer file ({rest[:40]!r}): give another file")


def read_answers(path: Path) -> Iterator[Answer]:
    """Read an answer file, also one that is being written; an unfinished last line is left out.

    Raises:
        DataError: it cannot be read, or a line is broken (file and line are named).
    """
    for where, entry in read_lines(path):
        if absent := [name for name in NEEDED if entry.get(name) is None]:
            raise DataError(f"{where} has no {absent[0]!r}: a line of an answer file has {', '.join(NEEDED)}")
        refuse_wrong_kinds(entry, where)
        yield Answer(**{name: value for name, value in entry.items() if name in KNOWN and value is not None})


def read_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read objects, one a line, each with `file:line` for messages; an unfinished last line is left out.

    Raises:
        DataError: it cannot be read, or a line is no object (file and line are named).
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from error
    if content.lstrip()[:1] == b"[":
        raise DataError(f"{path} is a JSON array: JSONL is needed, an object on each line, without brackets around")
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip() or (number == len(lines) and not _is_whole(line)):
            continue
        where = f"{path}:{number}"
        try:
            entry = load_json(line)
        except ValueError as error:
            raise DataError(f"{where} is not JSON ({error}): remove or mend this line") from error
        if not isinstance(entry, dict):
            raise DataError(f"{where} is no object ({line[:40]!r}): remove or mend this line")
        yield where, entry


def refuse_wrong_kinds(entry: Mapping[str, Any], where: str) -> None:
    """Refuse a line of which a field holds something else than it must.

    Raises:
        DataError: naming line and field.
    """
    for name, (kinds, text) in KINDS.items():
        value = entry.get(name)
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise DataError(f"{where}: {name!r} is {text}, here it is {value!r}")
        if isinstance(value, (int, float)) and not 0 <= value < math.inf:
            raise DataError(f"{where}: {name!r} is a finite number of at least 0, here it is {value!r}")
    if "text" in entry and entry["text"] is None and entry.get("status") != FAILED:
        raise DataError(f"{where}: 'text' is a text, here it is null: give the answer, or leave the line out")
    if entry.get("status") not in (None, ANSWERED, FAILED):
        raise DataError(f"{where}: 'status' is {ANSWERED} or {FAILED}, here it is {entry['status']!r}")
    for name, value in (entry.get("tokens") or {}).items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise DataError(f"{where}: the log-probability of {name!r} in 'tokens' is {value!r} and no number")


def line_of(answer: Answer) -> str:
    """Write an answer as one line of JSON, without what is not known.

    >>> line_of(Answer("q", "images_6f", "0a", "answered", "Yes."))
    '{"question": "q", "setting": "images_6f", "key": "0a", "status": "answered", "text": "Yes."}'
    """
    values: Mapping[str, Any] = asdict(answer)
    shown = {name: value for name, value in values.items() if name in NEEDED or value not in (None, "")}
    return json.dumps(shown, ensure_ascii=False, allow_nan=False)


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _open_locked(path: Path) -> int:
    """Open a file to append to, of which no other process has the lock.

    Raises:
        DataError: one has it, or the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.exists() and os.path.samestat(os.fstat(file), path.stat()):
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # removed by its last writer between the two steps
    except BlockingIOError:
        raise DataError(
            f"{path}: another run is writing its answers there; wait for it, or give another out= (or answers=)"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from error
