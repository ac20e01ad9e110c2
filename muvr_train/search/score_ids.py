"""Ids of score files: `<partition>/<video id>`, the bare `<video id>`, or with a partition's old name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from muvr_train.benchmarks.muvr_files import ALIASES
from muvr_train.errors import DataError

OLD_NAMES = {name: old for old, name in ALIASES.items()}


def index_of(ids: Sequence[str]) -> dict[str, int]:
    """Places by id."""
    return {name: place for place, name in enumerate(ids)}


def row_id(query: str, expression: str | None) -> str:
    """Name a row of a query with a tag expression."""
    return f"{query}\n{expression}"


def places_of(index: Mapping[str, int], partition: str, names: Sequence[str]) -> dict[str, int]:
    """The places of those ids that are there, in the order of `names`.

    An id may stand there as it is, without its partition, or with the partition's old name; what is itself another id
    of `names` is no spelling of this one.

    Raises:
        DataError: an id stands there in two spellings.
    """
    if partition not in OLD_NAMES and not any(name.startswith(f"{partition}/") for name in names):
        return {name: index[name] for name in names if name in index}  # there is no other spelling
    literal = frozenset(names)
    places: dict[str, int] = {}
    for name in names:
        bare = name.removeprefix(f"{partition}/")
        spellings = dict.fromkeys((name, bare, f"{OLD_NAMES.get(partition, partition)}/{bare}"))
        found = [one for one in spellings if one in index and (one == name or one not in literal)]
        if len(found) > 1:
            raise DataError(
                f"the ids {found[0]} and {found[1]} are the same video of partition {partition}: give it once"
            )
        if found:
            places[name] = index[found[0]]
    return places


def refuse_shared(owners: dict[int, str], places: Mapping[str, int]) -> None:
    """Refuse a row or a column that would serve two different ids.

    Args:
        owners: id by place, of what was found before; gets the new ones.
        places: place by id.

    Raises:
        DataError: with both ids.
    """
    for name, place in places.items():
        if (owner := owners.setdefault(place, name)) != name:
            raise DataError(
                f"one row or column could be {owner} and {name}, which are different ids: write ids in full, as "
                "<partition>/<video id>"
            )


def swapped_error(path: Path, partitions: str) -> DataError:
    """Say that rows and columns of a file seem to be exchanged."""
    return DataError(
        f"{path}: query_ids and database_ids seem to be swapped: query_ids are database videos of {partitions}. Save "
        "scores.T with the two exchanged"
    )
