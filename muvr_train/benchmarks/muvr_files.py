"""Finding and loading the five annotation files of MUVR partitions, with every fault collected by file and id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from muvr_train.errors import DataError, shorten

FILES = ("videos", "queries_en", "query_tags", "query_rel_lists", "query_tag_lists")
PARTITIONS = ("news", "others", "instance", "region", "dance")
ALIASES = {"geng": "others", "animal": "instance"}
NOT_PARTITIONS = ("QA", "retrieval", "annotations")

Id = int | str
Record = Mapping[str, object]
Lists = dict[Id, dict[str, list[Id]]]
"""Query id -> relation or tag expression -> listed ids."""


@dataclass
class Faults:
    """What is wrong (`errors`) or odd but defined (`warnings`): (file, what) -> the ids concerned."""

    errors: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    warnings: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def error(self, file: str, what: str, item: object = None) -> None:
        """Note something that makes the annotation unusable."""
        self.errors.setdefault((file, what), []).extend([] if item is None else [str(item)])

    def warn(self, file: str, what: str, item: object = None) -> None:
        """Note an oddity that has a defined meaning."""
        self.warnings.setdefault((file, what), []).extend([] if item is None else [str(item)])

    def raise_errors(self, root: Path) -> None:
        """Raise one DataError that lists every error, then every oddity, one line per file and kind."""
        if self.errors:
            lines = "\n  ".join(self.lines(self.errors, limit=20))
            odd = "".join(f"\n  {line}" for line in self.lines(self.warnings))
            odd = odd and f"\nbesides, these are odd (but have a meaning):{odd}"
            raise DataError(f"the annotation in {root} cannot be used; correct these entries:\n  {lines}{odd}")

    @staticmethod
    def lines(faults: Mapping[tuple[str, str], list[str]], limit: int = 5) -> list[str]:
        """One line per file and kind, with the first ids and their number."""
        return [
            f"{file}: {what}" + (f" ({len(items)}): {shorten(items, limit)}" if items else "")
            for (file, what), items in faults.items()
        ]


def find_folders(annotations: Path, partitions: Sequence[str] | None, faults: Faults) -> dict[str, Path]:
    """Partition name -> folder, in canonical order.

    Args:
        annotations: The folder that holds the partitions' folders, or the one or two levels above it
            (`retrieval/<partition>` and `annotations/retrieval/<partition>` are the released layouts).
        partitions: Names to read (aliases are understood), None for all.
        faults: Receives a warning for a folder that holds none of the five files.

    Raises:
        DataError: no such folder, no partition in it, a wanted one is missing, or two folders claim one name.
    """
    if not annotations.is_dir():
        raise DataError(f"annotations: {annotations} is not a folder; give the folder that holds news/, others/, ...")
    levels = [annotations / level for level in (".", "retrieval", "annotations", "annotations/retrieval")]
    root = next((level for level in levels if _partition_folders(level)), None)
    if root is None:
        what = "is itself one partition: give its parent" if _has_files(annotations) else "has no partition folder"
        raise DataError(f"annotations: {annotations} {what}; a partition is a folder with {_names(FILES)}")
    found: dict[str, Path] = {}
    for folder in _partition_folders(root):
        name = ALIASES.get(folder.name, folder.name)
        if name in found:
            raise DataError(f"{root}: the folders {found[name].name} and {folder.name} are both partition {name}")
        found[name] = folder
    ordered = [name for name in PARTITIONS if name in found] + sorted(found.keys() - set(PARTITIONS))
    if partitions is not None:
        wanted = [ALIASES.get(name, name) for name in partitions]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise DataError(f"{root} has no folder for partition {', '.join(missing)}; it has {', '.join(ordered)}")
        ordered = [name for name in ordered if name in wanted]
    for folder in _visible_folders(root):
        if not _has_files(folder):
            faults.warn(root.name, "folders without annotation files skipped", folder.name)
    return {name: found[name] for name in ordered}


def _has_files(folder: Path) -> bool:
    return any((folder / f"{name}.json").exists() for name in FILES)


def _visible_folders(root: Path) -> list[Path]:
    folders = (path for path in (sorted(root.iterdir()) if root.is_dir() else ()) if path.is_dir())
    return [path for path in folders if not path.name.startswith(".") and path.name not in NOT_PARTITIONS]


def _partition_folders(root: Path) -> list[Path]:
    return [folder for folder in _visible_folders(root) if _has_files(folder)]


def _names(files: Iterable[str]) -> str:
    return ", ".join(f"{name}.json" for name in files)


def load_files(folder: Path, faults: Faults) -> dict[str, object] | None:
    """The parsed content of the five files of a partition, None (and errors noted) where one cannot be read."""
    missing = [name for name in FILES if not (folder / f"{name}.json").is_file()]
    if missing:
        faults.error(folder.name, f"missing {_names(missing)}; a partition has {_names(FILES)}")
    content = {name: _load(folder, name, faults) for name in FILES if name not in missing}
    return None if missing or any(value is None for value in content.values()) else content


def _load(folder: Path, name: str, faults: Faults) -> object:
    file = f"{folder.name}/{name}.json"

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)
        if len(value) < len(pairs):
            keys = [key for key, _ in pairs]
            for key in {key for key in keys if keys.count(key) > 1}:
                faults.warn(file, "a key stands twice in one object; the last counts", repr(key))
        return value

    try:
        value = json.loads((folder / f"{name}.json").read_text(encoding="utf-8-sig"), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        faults.error(file, f"not JSON: {error.msg} at line {error.lineno} column {error.colno}")
        return None
    except UnicodeDecodeError as error:
        faults.error(file, f"not UTF-8 text: {error.reason} at byte {error.start}")
        return None
    wanted = dict if name == "query_tags" else list
    if not isinstance(value, wanted):
        faults.error(file, f"must hold a JSON {'object' if wanted is dict else 'array'}, not {_kind(value)}")
        return None
    return value


def is_id(value: object) -> bool:
    """Whether a JSON value can be an id (a whole number or a string)."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "true/false", type(None): "null"}
    return kinds.get(type(value), "a number")


def records(content: object, file: str, key: str, faults: Faults) -> list[tuple[Id, Record]]:
    """The entries of an array of objects with their id under `key`; entries without one are errors."""
    entries: list[tuple[Id, Record]] = []
    for position, entry in enumerate(content if isinstance(content, list) else []):
        if not isinstance(entry, dict):
            faults.error(file, "entries that are not objects", f"entry {position} is {_kind(entry)}")
        elif not is_id(entry.get(key)):
            got = _kind(entry[key]) if key in entry else "missing"
            faults.error(file, f"'{key}' must be a number or a string", f"in entry {position} it is {got}")
        else:
            entries.append((entry[key], entry))
    return entries


def text_of(entry: Record, key: str, file: str, identity: Id, faults: Faults) -> str | None:
    """A string under `key`, None where absent or null; other types are errors."""
    value = entry.get(key)
    if value is None or isinstance(value, str):
        return value
    faults.error(file, f"'{key}' must be a string", f"that of id {identity} is {_kind(value)}")
    return None


def topic_of(entry: Record, file: str, identity: Id, faults: Faults) -> str | None:
    """The topic as a string, None where absent or null; types other than number and string are errors."""
    value = entry.get("topic_id")
    if value is None or is_id(value):
        return None if value is None else str(value)
    faults.error(file, "'topic_id' must be a number or a string", f"that of id {identity} is {_kind(value)}")
    return None


def id_lists(content: object, file: str, key: str, known: Iterable[Id], queries: Iterable[Id], faults: Faults) -> Lists:
    """Parse `[{query_id, <key>: {name: {"id_list": [...]}}}]`; unknown queries are skipped, the last list wins.

    Args:
        content: The parsed file.
        file: Its name for messages.
        key: `rel_lists` or `tag_lists`.
        known: Ids of the partition's videos; any other id in a list of a retained query is an error.
        queries: Ids of the retained queries.
        faults: Receives errors and warnings.
    """
    known, queries = set(known), set(queries)
    parsed: Lists = {}
    for query, entry in records(content, file, "query_id", faults):
        lists = entry.get(key)
        if not isinstance(lists, dict):
            got = _kind(lists) if key in entry else "missing"
            faults.error(file, f"'{key}' must be an object", f"that of query {query} is {got}")
        elif query not in queries:
            faults.warn(file, "lists of unknown queries skipped", query)
        else:
            for name, holder in lists.items():
                ids = _id_list(holder, file, f"query {query} '{name}'", known, faults)
                if name in parsed.get(query, {}):
                    faults.warn(
                        file, "two lists of one name for one query (the last counts)", f"query {query} '{name}'"
                    )
                parsed.setdefault(query, {})[name] = ids
    return parsed


def _id_list(holder: object, file: str, where: str, known: set[Id], faults: Faults) -> list[Id]:
    ids = holder.get("id_list") if isinstance(holder, dict) else None
    if not isinstance(ids, list) or not all(is_id(item) for item in ids):
        faults.error(file, "lists must look like {'id_list': [ids]}", where)
        return []
    unique = list(dict.fromkeys(ids))
    for item in unique:
        if item not in known:
            faults.error(file, "ids that are not in videos.json", f"{item!r} of {where}")
    if not ids:
        faults.warn(file, "empty lists", where)
    if len(unique) < len(ids):
        faults.warn(file, "lists that hold an id twice (it counts once)", where)
    return unique
