"""The toy data set with tags: expressions of each query, and vectors of its tags beside its prompt."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tests.toy import DIM, PARTITIONS, make_toy

TAGS = ("night", "crowd", "high-rise buildings", "夜景")
EXPRESSIONS = ("+night", "-crowd", "+night -crowd", "AND +night -crowd", "OR +night +crowd", "-high -rise buildings")


def make_tagged(root: Path, expressions: Sequence[str] = EXPRESSIONS, seed: int = 1) -> tuple[Path, Path]:
    """Write the toy data set with tags; give the folders of annotations and features.

    Every query but the last of each partition has every expression; expression number i lists the matches of its topic
    from the i-th on (the last ones list nothing), and for the first query also a distractor and itself.
    """
    annotations, features = make_toy(root)
    rng = np.random.default_rng(seed)
    vectors = {tag: rng.standard_normal((1, DIM)).astype(np.float32) for tag in TAGS}
    for partition in PARTITIONS:
        folder = annotations / partition
        queries = json.loads((folder / "queries_en.json").read_text())
        relations = json.loads((folder / "query_rel_lists.json").read_text())
        matches = {entry["query_id"]: entry["rel_lists"]["pos_all"]["id_list"] for entry in relations}
        lists = []
        for place, query in enumerate(queries):
            name = query["frames_path"].split("/")[-1]
            with (features / partition / f"{name}_query_dict.pkl").open("rb") as file:
                prompt = pickle.load(file)["query_prompt"]
            write_query(features / partition, name, prompt, vectors)
            more = [relations[0]["rel_lists"]["independent"]["id_list"][0], query["id"]] if place == 0 else []
            found = {text: {"id_list": matches[query["id"]][i:] + more} for i, text in enumerate(expressions)}
            if place < len(queries) - 1:
                lists.append({"query_id": query["id"], "tag_lists": found})
        tags = {str(query["id"]): list(TAGS) for query in queries}
        (folder / "query_tags.json").write_text(json.dumps(tags, ensure_ascii=False), encoding="utf-8")
        (folder / "query_tag_lists.json").write_text(json.dumps(lists, ensure_ascii=False), encoding="utf-8")
    return annotations, features


def write_query(folder: Path, name: str, prompt: np.ndarray, vectors: Mapping[str, np.ndarray]) -> None:
    """Write a query's dictionary."""
    with (folder / f"{name}_query_dict.pkl").open("wb") as file:
        pickle.dump({"query_prompt": prompt, "tags": dict(vectors)}, file)
