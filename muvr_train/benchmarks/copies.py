"""A retrieval benchmark from a folder of videos without annotation: find the videos that hold an edited segment.

Sources are split by file. A query is a strongly edited segment of a held-out source. A database video is untrimmed: a
segment, plain or edited, among segments of other held-out sources of the same split. What is relevant follows from what
a video is composed of: level "copy" where it shows part of the query's own segment, "event" where it shows another part
of the same source.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from muvr_train.benchmarks.chance import NOTABLE, chance_of
from muvr_train.benchmarks.copies_draw import NAME, CopiesSettings, draw_cards, draw_held_out, draw_views, topic_of
from muvr_train.benchmarks.copies_recipes import Recipe
from muvr_train.benchmarks.splits import DEFAULT_FRACTIONS, assign_folds, assign_splits
from muvr_train.benchmarks.types import Benchmark, Judgement, Partition, Query
from muvr_train.errors import ConfigError, DataError, shorten

COPY, EVENT = "copy", "event"
HELD_OUT = ("val", "test")
COPY_SHARE = 0.3
"""Two segments are copies where they share at least so much of the shorter one."""
ENOUGH = 25
"""Test sources from which on, with the sizes as they are, fewer than a tenth of all pairs match."""
NOTE = (
    "matches of level copy show part of the query's own segment, those of level event another part of its source; an "
    "`@distractor` was made for no query, but is a match where it shows the query's source among others"
)


@dataclass(frozen=True)
class CopiesPlan:
    """Everything that the benchmark is, before a frame is decoded.

    Attributes:
        seed: What segments and edits were drawn from.
        fractions: Of the sources in train, val and test.
        settings: Sizes.
        folds: (folds, fold) where the sources were dealt out in folds instead; `fractions` then mean nothing.
        sources: Name of each source -> its split, in order of the names.
        train: Recipes of the training sources, plain (stream "video") and as edited views (streams "view1" ...).
        queries: Recipes of the held-out queries by split.
        database: Recipes of the database videos by split.
    """

    seed: int
    fractions: tuple[float, float, float]
    settings: CopiesSettings
    sources: Mapping[str, str]
    train: tuple[Recipe, ...]
    queries: Mapping[str, tuple[Recipe, ...]]
    database: Mapping[str, tuple[Recipe, ...]]
    folds: tuple[int, int] | None = None

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        """Every video to be made."""
        held = (recipe for split in HELD_OUT for recipe in (*self.queries[split], *self.database[split]))
        return (*self.train, *held)

    @cached_property
    def digest(self) -> str:
        """A hash of the whole plan."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        parts = {
            name: {split: [recipe.to_json() for recipe in recipes] for split, recipes in by_split.items()}
            for name, by_split in (("queries", self.queries), ("database", self.database))
        }
        train = [recipe.to_json() for recipe in self.train]
        sizes = {name: size for name, size in asdict(self.settings).items() if size is not None}
        head: dict[str, Any] = {"seed": self.seed, "fractions": list(self.fractions), "settings": sizes}
        if self.folds:
            head["folds"] = list(self.folds)
        return {**head, "sources": dict(self.sources), "train": train, **parts}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> CopiesPlan:
        """Read what `to_json` gave.

        Raises:
            DataError: it is something else.
        """
        try:
            parts = {
                name: {split: tuple(Recipe.from_json(r) for r in recipes) for split, recipes in content[name].items()}
                for name in ("queries", "database")
            }
            train = tuple(Recipe.from_json(recipe) for recipe in content["train"])
            settings, fractions = CopiesSettings(**content["settings"]), tuple(content["fractions"])
            folds = (int(content["folds"][0]), int(content["folds"][1])) if "folds" in content else None
            return cls(content["seed"], fractions, settings, dict(content["sources"]), train, **parts, folds=folds)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"this is no plan of a copies benchmark, or it is damaged ({error!r})") from error

    def benchmark(self) -> Benchmark:
        """The benchmark: one partition; every query has its topic and split, and the galleries of splits are disjoint.

        The training sources appear as queries that are not counted and have no lists, so that
        `select("train").video_ids` are the training sources.
        """
        queries = [_query(f"{NAME}/{name}", name, "train") for name in self.names("train")]
        judgements = [Judgement(query.id, {}, counted=False) for query in queries]
        for split in HELD_OUT:
            database = [recipe.id for recipe in self.database[split]]
            for recipe in self.queries[split]:
                positives = {video.id: level for video in self.database[split] if (level := relation(recipe, video))}
                queries.append(_query(recipe.id, recipe.pieces[-1].source, split))
                judgements.append(Judgement(recipe.id, positives, frozenset(database) - positives.keys()))
        videos = [recipe for split in HELD_OUT for recipe in self.database[split]]
        topics = {
            video.id: frozenset(topic_of(source) for piece in video.pieces for source, _, _ in piece.shown())
            for video in videos
        }
        partition = Partition(NAME, tuple(queries), tuple(judgements), tuple(video.id for video in videos), topics)
        protocol = {"copies_seed": str(self.seed), "intros": str(self.settings.intros)}
        return Benchmark(NAME, (partition,), protocol, self._warnings(judgements), notes=(NOTE,))

    def _warnings(self, judgements: Sequence[Judgement]) -> tuple[str, ...]:
        """Say where so much matches that results are near chance."""
        split = "test" if self.queries["test"] else "val"
        ids = {recipe.id for recipe in self.queries[split]}
        chance = chance_of([judgement for judgement in judgements if judgement.query in ids])
        if chance is None or chance.share < NOTABLE:
            return ()
        share = 1 / self.folds[0] if self.folds else self.fractions[("train", *HELD_OUT).index(split)]
        videos = math.ceil(round(ENOUGH / share, 6))
        way_out = f"With about {ENOUGH} {split} videos ({videos} in all) fewer than {100 * NOTABLE:g} % do"
        return (f"{split}: {chance.text}. {way_out}",)

    def names(self, split: str) -> list[str]:
        """The sources of a split."""
        return [name for name, own in self.sources.items() if own == split]


def plan_copies(
    video_ids: Sequence[str],
    seed: int = 0,
    fractions: Sequence[float] = DEFAULT_FRACTIONS,
    settings: CopiesSettings | None = None,
    folds: int | None = None,
    fold: int | None = None,
) -> CopiesPlan:
    """Plan the benchmark; it depends on the names, the seed, the split and the settings, and on nothing else.

    Args:
        video_ids: names of the usable sources, in any order. Cuts of one upload (`<name>_hh.mm.ss-hh.mm.ss`) stay
            together in one split.
        seed: for segments, edits and who is put beside whom; the split does not depend on it.
        fractions: of train, val and test.
        settings: sizes.
        folds: deal the sources out in so many folds (at least 3) instead of cutting at the fractions: over all folds
            every source is in test once and in val once.
        fold: 0 to folds - 1: its sources are test, those of the next fold val, the rest train.

    Raises:
        DataError: a name stands twice, a split that is asked for gets fewer than two sources, or
            `settings.gallery` cannot be reached.
        ConfigError: impossible fractions or folds, or a gallery smaller than the matches.
    """
    settings, names = settings or CopiesSettings(), sorted(video_ids)
    if twice := sorted({name for name, after in pairwise(names) if name == after}):
        raise DataError(f"benchmark copies: these videos are named twice: {shorten(twice)}")
    sources, dealt = deal_out(names, fractions, folds, fold)
    by_split = {split: [name for name in names if sources[name] == split] for split in ("train", *HELD_OUT)}
    train = [recipe for name in by_split["train"] for recipe in draw_views(name, by_split["train"], seed, settings)]
    train += draw_cards(settings)
    made = {split: draw_held_out(split, by_split[split], seed, settings) for split in HELD_OUT}
    return CopiesPlan(
        seed=seed,
        fractions=(fractions[0], fractions[1], fractions[2]),
        settings=settings,
        sources=sources,
        train=tuple(train),
        queries={split: tuple(queries) for split, (queries, _) in made.items()},
        database={split: tuple(database) for split, (_, database) in made.items()},
        folds=dealt,
    )


def deal_out(
    names: Sequence[str], fractions: Sequence[float], folds: int | None = None, fold: int | None = None
) -> tuple[dict[str, str], tuple[int, int] | None]:
    """Name of each source -> its split, and (folds, fold) where there are folds; see `plan_copies`.

    Raises:
        DataError: a split that is asked for gets fewer than two sources.
        ConfigError: impossible fractions or folds.
    """
    _check_folds(folds, fold)
    topics = {topic_of(name) for name in names}
    dealt = None if folds is None or fold is None else (folds, fold)
    splits = assign_folds(topics, *dealt) if dealt else assign_splits(topics, fractions)
    sources = {name: splits[topic_of(name)] for name in names}
    _check_sizes(sources, fractions, dealt)
    return sources, dealt


def relation(query: Recipe, video: Recipe) -> str | None:
    """Level of the match of a database video: "copy", "event", or None where it does not show the query's source."""
    own = query.pieces[-1]
    level = None
    for piece in video.pieces:
        for source, start, stop in piece.shown():
            if source == own.source:
                shared = min(stop, own.stop) - max(start, own.start)
                if shared >= COPY_SHARE * min(stop - start, own.stop - own.start):
                    return COPY
                level = EVENT
    return level


def _query(identifier: str, source: str, split: str) -> Query:
    return Query(identifier, NAME, topic_of(source), annotated_split=split, split=split)


def _check_folds(folds: int | None, fold: int | None) -> None:
    if (folds is None) != (fold is None):
        raise ConfigError(f"benchmark copies: folds={folds} and fold={fold}: give both or none")
    if folds is not None and fold is not None and not (folds >= 3 and 0 <= fold < folds):
        raise ConfigError(f"benchmark copies: needs folds >= 3 and 0 <= fold < folds, got folds={folds}, fold={fold}")


def _check_sizes(sources: Mapping[str, str], fractions: Sequence[float], dealt: tuple[int, int] | None) -> None:
    counts = [sum(split == own for own in sources.values()) for split in ("train", *HELD_OUT)]
    wanted = (1.0, 1.0, 1.0) if dealt else fractions
    if any(count < 2 for count, fraction in zip(counts, wanted, strict=True) if fraction > 0):
        least = 2 * sum(fraction > 0 for fraction in wanted)
        way_out = f"take fewer folds than {dealt[0]}" if dealt else f"change data.fractions={list(fractions)}"
        way_out = f", or {way_out}" if len(sources) >= least else f": it takes at least {least}"
        raise DataError(
            f"benchmark copies: {len(sources)} usable {'video gives' if len(sources) == 1 else 'videos give'} "
            f"{counts[0]} for train, {counts[1]} for val and {counts[2]} for test; each needs at least 2. Add "
            f"videos{way_out}"
        )
