"""A small data set in MUVR's layout, made of seeded random numbers, for tests that must run without ../shared."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np

PARTITIONS = ("news", "dance")
TOPICS, QUERIES, MATCHES, OTHERS = 5, 2, 4, 2
DIM, FRAMES = 16, 6


def make_toy(root: Path, dim: int = DIM, seed: int = 0) -> tuple[Path, Path]:
    """Write annotations and features; give their two folders.

    Every partition has 5 topics of 2 queries, 4 matches and 2 hard non-matches, and 10 distractors. A match holds two
    frames of its topic's vector among frames of noise, so a network has something to learn.
    """
    rng = np.random.default_rng(seed)
    annotations, features = root / "annotations", root / "features"
    for partition in PARTITIONS:
        folder = features / partition
        folder.mkdir(parents=True)
        videos, queries, lists, number = [], [], [], 0
        members: list[tuple[int, str, list[int]]] = []
        intro = rng.standard_normal(dim)

        def add(name: str, topic: int | None, vector: np.ndarray | None, is_query: bool) -> int:
            nonlocal number
            number += 1
            frames = rng.standard_normal((FRAMES, dim)) + 2 * intro  # noqa: B023
            if vector is not None:
                at = int(rng.integers(0, FRAMES - 2))
                frames[at : at + 2] = 1.2 * vector + 0.8 * rng.standard_normal((2, dim))
            np.save(folder / f"{name}.npy", frames.astype(np.float32))  # noqa: B023
            entry = {"id": number, "frames_path": f"frames/{partition}/{name}", "is_query": int(is_query)}  # noqa: B023
            videos.append(entry if topic is None else {**entry, "topic_id": topic})  # noqa: B023
            return number

        distractors = [add(f"d{i}", None, None, False) for i in range(10)]
        for topic in range(TOPICS):
            vector = rng.standard_normal(dim)
            matches = [add(f"t{topic}m{i}", topic, vector, False) for i in range(MATCHES)]
            hard = [add(f"t{topic}h{i}", None, None, False) for i in range(OTHERS)]
            for i in range(QUERIES):
                query = add(f"t{topic}q{i}", topic, vector, True)
                members.append((query, f"t{topic}q{i}", matches))
                entry = {"id": query, "topic_id": topic, "frames_path": f"frames/{partition}/t{topic}q{i}"}
                queries.append({**entry, "prompt_en": f"find topic {topic}"})
                relations = {"pos_all": matches, "independent": distractors, "hard_independent": hard}
                lists.append({"query_id": query, "rel_lists": {k: {"id_list": v} for k, v in relations.items()}})
                text = (0.5 * vector + rng.standard_normal(dim))[None].astype(np.float32)
                with (folder / f"t{topic}q{i}_query_dict.pkl").open("wb") as file:
                    pickle.dump({"query_prompt": text, "tags": {}}, file)
        target = annotations / partition
        target.mkdir(parents=True)
        files = {"videos": videos, "queries_en": queries, "query_tags": {}, "query_rel_lists": lists}
        for name, content in {**files, "query_tag_lists": []}.items():
            (target / f"{name}.json").write_text(json.dumps(content))
    return annotations, features
