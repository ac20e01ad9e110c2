"""Annotations of the video-similarity benchmarks as they are passed around: one pickle of plain containers each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from muvr_train.errors import DataError, shorten
from muvr_train.pickles import read_pickle


class AnnotationFile:
    """The content of a pickle, with a DataError that names file and place for everything that is not as expected.

    Args:
        annotations: the file, or the folder it lies in.
        names: names that it may have in the folder, the usual one first.

    Raises:
        DataError: it is not there, it is no readable pickle of plain containers, or it holds no dictionary.
    """

    def __init__(self, annotations: Path, names: Sequence[str]) -> None:
        self.path = find_file(annotations, names)
        self.content = self.mapping(read_pickle(self.path), "the whole file")

    def error(self, place: str, expected: str, found: object) -> DataError:
        """Make the error for a place."""
        return DataError(f"{self.path}: {place} must be {expected}, found {_describe(found)}")

    def entry(self, *keys: str) -> Any:
        """Give what stands under keys, one below the other."""
        value: Any = self.content
        for depth, key in enumerate(keys):
            if not isinstance(value, Mapping) or key not in value:
                raise self.error(" / ".join(keys[:depth]) or "the whole file", f"a dictionary with key {key!r}", value)
            value = value[key]
        return value

    def mapping(self, value: object, place: str) -> Mapping[Any, Any]:
        """Check that a value is a dictionary."""
        if not isinstance(value, Mapping):
            raise self.error(place, "a dictionary", value)
        return value

    def items(self, value: object, place: str, length: int | None = None) -> list[Any]:
        """Check that a value is a list (or tuple), of a given length."""
        if not isinstance(value, (list, tuple)) or length not in (None, len(value)):
            raise self.error(place, "a list" if length is None else f"a list of {length}", value)
        return list(value)

    def ids(self, value: object, place: str, unique: bool = False) -> list[str]:
        """Check that a value is a list or set of ids; give them in a fixed order, a set sorted.

        Args:
            value: what was found.
            place: for the message.
            unique: refuse ids that stand twice.
        """
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise self.error(place, "a list or set of video ids", value)
        wrong = [item for item in value if not isinstance(item, str) or not item]
        if wrong:
            raise self.error(place, "a list or set of video ids (text that is not empty)", wrong[0])
        found = list(value) if isinstance(value, (list, tuple)) else sorted(value)
        if unique and len(set(found)) < len(found):
            twice = sorted(name for name, count in Counter(found).items() if count > 1)
            raise DataError(f"{self.path}: {place} holds {len(twice)} ids twice: {shorten(twice)}")
        return found

    def known(self, ids: Collection[str], known: Collection[str], place: str, what: str) -> None:
        """Refuse ids that are not known."""
        if unknown := sorted(set(ids) - set(known)):
            raise DataError(f"{self.path}: {place}: {len(unknown)} ids are not {what}: {shorten(unknown)}")


def find_file(annotations: Path, names: Sequence[str]) -> Path:
    """Give the annotation file: the path itself, or the first of the names that is in the folder.

    Raises:
        DataError: there is none.
    """
    annotations = Path(annotations)
    if annotations.is_dir():
        for name in names:
            if (annotations / name).is_file():
                return annotations / name
        there = sorted(path.name for path in annotations.iterdir())
        raise DataError(f"{annotations} holds no {' or '.join(names)}; it holds: {shorten(there) or 'nothing'}")
    if not annotations.is_file():
        raise DataError(f"{annotations}: there is no such file or folder; expected {names[0]}, or the folder it is in")
    return annotations


def _describe(value: object) -> str:
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"a {kind} with keys {shorten([repr(key) for key in value], 5)}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"a {kind} of {len(value)}"
    return f"{str(value)[:60]!r} ({kind})"
