"""Recipes of composed videos: which parts of which sources, edited how. Plain values, drawn from a seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Edit:
    """One edit: a name of `features.edits.apply.APPLIED` and its arguments, as plain data."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Piece:
    """A part of a source.

    Attributes:
        source: Name of the source, or of a title card.
        start: Where the part begins, as a fraction of the source in [0, 1).
        stop: Where it ends, in (start, 1].
        frames: Frames to take from it, evenly; fewer where the part has fewer.
        edits: In the order in which they are applied.
        card: True for a drawn title card, which is not part of any source.
    """

    source: str
    start: float
    stop: float
    frames: int
    edits: tuple[Edit, ...] = ()
    card: bool = False

    def shown(self) -> Iterator[tuple[str, float, float]]:
        """Every (source, start, stop) that is visible in the piece: its own, and other videos in its pictures."""
        if not self.card:
            yield self.source, self.start, self.stop
        for edit in self.edits:
            if "host" in edit.settings:
                yield edit.settings["host"], edit.settings["host_start"], edit.settings["host_stop"]


@dataclass(frozen=True)
class Recipe:
    """A composed video: `id` is the key of its features in `stream`, its pieces follow one another."""

    id: str
    pieces: tuple[Piece, ...]
    stream: str = "video"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        pieces = [
            {**vars(piece), "edits": [[edit.name, dict(edit.settings)] for edit in piece.edits]}
            for piece in self.pieces
        ]
        return {"id": self.id, "stream": self.stream, "pieces": pieces}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Recipe:
        """Read what `to_json` gave; KeyError or TypeError where it is something else."""
        pieces = tuple(
            Piece(**{**piece, "edits": tuple(Edit(name, settings) for name, settings in piece["edits"])})
            for piece in content["pieces"]
        )
        return cls(content["id"], pieces, content["stream"])
