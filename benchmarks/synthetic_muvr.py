"""Synthetic data in MUVR's layout at any size: annotations, one .npy per video as officially, and a feature store."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import tag_key
from muvr_train.features.writer import StoreWriter

FRAMES, DIM, QUERIES_PER_TOPIC = 15, 1024, 3
TAGS = tuple(f"tag {number}" for number in range(24))
Floats = NDArray[np.float32]
Halves = NDArray[np.float16]


@dataclass(frozen=True)
class Sizes:
    """Of one partition: half of the database matches a topic, the rest matches nothing (MUVR has 210 and 10,700)."""

    queries: int = 210
    database: int = 10_700

    @property
    def topics(self) -> int:
        """Search topics, of three queries each."""
        return max(1, self.queries // QUERIES_PER_TOPIC)

    def topic(self, number: int, is_query: bool) -> int | None:
        """The topic of a query or of a database video."""
        if is_query:
            return number % self.topics
        return number % self.topics if number < self.database // 2 else None


def write_partition(root: Path, name: str, sizes: Sizes, seed: int) -> None:
    """Write the five annotation files of a partition to `root/annotations/<name>`.

    Every query has 4 tags and 9 expressions, 7 of which the official program evaluates.
    """
    folder = root / "annotations" / name
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    ids = {video: number for number, (video, _, _) in enumerate(_videos(sizes))}
    videos = [
        {"id": ids[video], "frames_path": f"frames/{name}/{video}", "is_query": int(asks), "topic_id": topic}
        for video, topic, asks in _videos(sizes)
    ]
    members: dict[int, list[int]] = {topic: [] for topic in range(sizes.topics)}
    for video, topic, asks in _videos(sizes):
        if topic is not None and not asks:
            members[topic].append(ids[video])
    matching = {topic: frozenset(numbers) for topic, numbers in members.items()}
    database = [ids[video] for video, _, asks in _videos(sizes) if not asks]
    queries, tags, relations, lists = [], {}, [], []
    for video, topic, asks in _videos(sizes):
        if not asks:
            continue
        number, positives = ids[video], members[topic or 0]
        path = f"frames/{name}/{video}"
        queries.append({"id": number, "topic_id": topic, "frames_path": path, "prompt_en": f"find {topic}"})
        own = [TAGS[place] for place in rng.choice(len(TAGS), 4, replace=False)]
        tags[str(number)] = own
        share = min(5, sizes.queries)  # every query lists a part of the rest, all together the whole database
        rest = [other for other in database if other % share == number % share and other not in matching[topic or 0]]
        listed = {"pos_all": {"id_list": positives}, "independent": {"id_list": rest}}
        relations.append({"query_id": number, "rel_lists": listed})
        chosen = {text: {"id_list": [p for p in positives if rng.random() < 0.5]} for text in _expressions(own)}
        lists.append({"query_id": number, "tag_lists": chosen})
    files = {
        "videos": videos,
        "queries_en": queries,
        "query_tags": tags,
        "query_rel_lists": relations,
        "query_tag_lists": lists,
    }
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))


def write_features(root: Path, names: Sequence[str], sizes: Sizes, files: bool, seed: int = 0) -> None:
    """Write the features of all partitions to `root/store`, in float16.

    With `files` also as the official program reads them: `root/features/<name>/<video>.npy` in float32 and
    `<query>_query_dict.pkl`.

    A frame is noise; two frames of a query or match hold its topic's vector too, a text is that vector with noise.
    """
    rng = np.random.default_rng(seed)
    topics = {name: _draw(rng, sizes.topics, DIM) for name in names}
    vectors = {tag: _draw(rng, 1, DIM) for tag in TAGS}
    with StoreWriter(root / "store", make_manifest("synthetic", text_aligned=True)) as writer:
        for name in names:
            tags = json.loads((root / "annotations" / name / "query_tags.json").read_text())
            folder = root / "features" / name
            if files:
                folder.mkdir(parents=True)
            for number, (video, topic, asks) in enumerate(_videos(sizes)):
                frames = _draw(rng, FRAMES, DIM)
                if topic is not None:
                    at = int(rng.integers(FRAMES - 1))
                    frames[at : at + 2] += 0.35 * topics[name][topic]
                frames = frames.astype(np.float16)
                writer.add(f"{name}/{video}", frames[:, None])
                if files:
                    np.save(folder / f"{video}.npy", frames.astype(np.float32))
                if asks:
                    text = (0.3 * topics[name][topic or 0] + _draw(rng, 1, DIM)).astype(np.float16)
                    own = {tag: vectors[tag].astype(np.float16) for tag in tags[str(number)]}
                    _write_texts(writer, f"{name}/{video}", text, own)
                    if files:
                        content = {
                            "query_prompt": text.astype(np.float32),
                            "tags": {tag: vector.astype(np.float32) for tag, vector in own.items()},
                        }
                        (folder / f"{video}_query_dict.pkl").write_bytes(pickle.dumps(content))


def _videos(sizes: Sizes) -> Iterator[tuple[str, int | None, bool]]:
    """Name, topic and whether it is a query, of every video."""
    for number in range(sizes.queries):
        yield f"q{number}", sizes.topic(number, True), True
    for number in range(sizes.database):
        yield f"v{number}", sizes.topic(number, False), False


def _expressions(tags: list[str]) -> list[str]:
    a, b, c, d = tags
    return [f"+{a}", f"-{a}", f"+{b}", f"-{b}", f"+{c}", f"-{d}", f"+{a} -{b}", f"AND +{a} -{b}", f"OR +{a} +{b}"]


def _draw(rng: np.random.Generator, *shape: int) -> Floats:
    return rng.standard_normal(shape, dtype=np.float32)


def _write_texts(writer: StoreWriter, query: str, text: Halves, tags: dict[str, Halves]) -> None:
    writer.add(query, text[:, None], stream="text")
    for tag, vector in tags.items():
        writer.add(tag_key(query, tag), vector[:, None], stream="tags")
