"""Ids of score files: `<partition>/<video id>`, the bare `<video id>`, or with a partition's old name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from muvr_train.benchmarks.muvr_files import ALIASES
from muvr_train.errors import DataError

OLD_NAMES = {name: old for old, name in ALIASES.items()}


def index_of(ids: Sequence[str]) -> dict[str, int]:
    """Places by id."""
    return {name: place for place, name in enumerate(ids)}


def find(index: Mapping[str, int], partition: str, name: str) -> int | None:
    """The place of an id: as it is, without its partition, or with the partition's old name.

    Raises:
        DataError: it stands there in two spellings.
    """
    bare = name.removeprefix(f"{partition}/")
    spellings = dict.fromkeys((name, bare, f"{OLD_NAMES.get(partition, partition)}/{bare}"))
    found = [spelling for spelling in spellings if spelling in index]
    if len(found) > 1:
        raise DataError(f"the ids {found[0]} and {found[1]} are the same video of partition {partition}: give it once")
    return index[found[0]] if found else None


def places_of(index: Mapping[str, int], partition: str, names: Sequence[str]) -> dict[str, int]:
    """The places of those ids that are there, in the order of `names`; see `find`."""
    if partition not in OLD_NAMES and not any(name.startswith(f"{partition}/") for name in names):
        return {name: index[name] for name in names if name in index}  # there is no other spelling
    found = ((name, find(index, partition, name)) for name in names)
    return {name: place for name, place in found if place is not None}
