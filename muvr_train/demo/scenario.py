"""The plan's vocabulary of data: what is to be seen in each video, as plain values that can be written as JSON.

Positions are fractions of the world picture (x to the right, y down), sizes are world pixels (see spec.WORLD_SIZE),
times are frames.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Point = tuple[float, float]


@dataclass(frozen=True)
class Actor:
    """One thing in the foreground: a sprite, an instance object (`object:<shape>`) or a dancer.

    `path` holds the positions at equally spaced moments of the script; `poses` is a dancer's order of poses and
    `style` the seed of its look.
    """

    kind: str
    colour: str
    size: float
    path: tuple[Point, ...]
    style: int = 0
    poses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scene:
    """A background: its kind, its time of day, and the seed of its layout."""

    kind: str
    time: str
    layout: int


@dataclass(frozen=True)
class Camera:
    """What part of the world is seen: `zoom` >= 1, centre of the view at the first and at the last frame."""

    zoom: float = 1.0
    start: Point = (0.5, 0.5)
    end: Point = (0.5, 0.5)
    flip: bool = False
    turn: float = 0.0


@dataclass(frozen=True)
class Look:
    """Grading and edits of the finished picture.

    `gains` multiply the colour channels, `hue` turns colours (degrees), `inset` < 1 shrinks the picture into another
    one (`inset_scene`), `overlay` is none, caption, logo or both.
    """

    gains: tuple[float, float, float] = (1.0, 1.0, 1.0)
    gamma: float = 1.0
    contrast: float = 1.0
    brightness: float = 0.0
    saturation: float = 1.0
    hue: float = 0.0
    blur: float = 0.0
    overlay: str = "none"
    overlay_seed: int = 0
    inset: float = 1.0
    inset_scene: Scene | None = None


@dataclass(frozen=True)
class Shot:
    """A stretch of one video: either a title card or a scene with actors.

    The script's moment at frame i is `offset + speed * i`, and the script lasts `script` frames (then it repeats).
    """

    frames: int
    scene: Scene | None = None
    actors: tuple[Actor, ...] = ()
    camera: Camera = field(default_factory=Camera)
    look: Look = field(default_factory=Look)
    offset: float = 0.0
    speed: float = 1.0
    script: float = 40.0
    card: int | None = None


@dataclass(frozen=True)
class Video:
    """One video to be rendered. `role` is query, a level of correspondence, hard_independent or independent."""

    id: str
    number: int
    partition: str
    split: str
    topic: int | None
    role: str
    shots: tuple[Shot, ...]

    @property
    def frames(self) -> int:
        """The number of frames of all shots."""
        return sum(shot.frames for shot in self.shots)

    @property
    def card(self) -> int | None:
        """The title card that the video begins with."""
        return self.shots[0].card


@dataclass(frozen=True)
class Topic:
    """A search topic: its split, its videos' numbers by role, and one prompt per query."""

    partition: str
    index: int
    split: str
    prompts: tuple[str, ...]
    members: dict[str, tuple[int, ...]]

    @property
    def name(self) -> str:
        """The name that splits are drawn by: `<partition>/<topic_id>`."""
        return f"{self.partition}/{self.index}"


@dataclass(frozen=True)
class Plan:
    """The whole corpus: topics and videos; `independent` are the shared unrelated videos by (partition, split)."""

    size: str
    seed: int
    topics: tuple[Topic, ...]
    videos: tuple[Video, ...]
    independent: dict[str, tuple[int, ...]]
