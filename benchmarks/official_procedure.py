"""A plain re-statement of how the official MUVR program evaluates, for timing: file by file, pair by pair.

Written from the rules of that program (np.load of a file per video, one product per database video, every score taken
by .item() into dictionaries, metrics query by query in numpy), without its code.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

KS = (200, 500, 1000, 2000)
Scores = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Annotation:
    """What is asked: queries and database by name, and what is right."""

    queries: list[str]
    database: list[str]
    positives: dict[str, set[str]]
    expressions: dict[str, dict[str, set[str]]]

    def first(self, videos: int) -> Annotation:
        """The same with the first videos of the database only."""
        return replace(self, database=self.database[:videos])


@dataclass(frozen=True)
class Features:
    """Normalised features, one tensor per video."""

    videos: dict[str, Tensor]
    prompts: dict[str, Tensor]
    tags: dict[str, dict[str, Tensor]]


def read_annotation(folder: Path) -> Annotation:
    """Read a partition's files."""
    content = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    names = {video["id"]: video["frames_path"].split("/")[-1] for video in content["videos"]}
    asked = {query["id"] for query in content["queries_en"]}
    lists = {entry["query_id"]: entry["rel_lists"] for entry in content["query_rel_lists"]}
    database: dict[str, None] = {}
    for relations in lists.values():
        for relation in relations.values():
            database |= dict.fromkeys(names[number] for number in relation["id_list"])
    return Annotation(
        [names[number] for number in names if number in asked],
        list(database),
        {names[query]: {names[number] for number in lists[query]["pos_all"]["id_list"]} for query in lists},
        {
            names[entry["query_id"]]: {
                text: {names[number] for number in found["id_list"]} for text, found in entry["tag_lists"].items()
            }
            for entry in content["query_tag_lists"]
        },
    )


def load_features(folder: Path, annotation: Annotation) -> Features:
    """Load a file per video and one per query."""
    videos = {}
    for name in dict.fromkeys([*annotation.queries, *annotation.database]):
        frames = torch.from_numpy(np.load(folder / f"{name}.npy")).float()
        videos[name] = frames / frames.norm(dim=-1, keepdim=True)
    prompts, tags = {}, {}
    for name in annotation.queries:
        with (folder / f"{name}_query_dict.pkl").open("rb") as file:
            texts = pickle.load(file)
        prompts[name] = _normalised(texts["query_prompt"])
        tags[name] = {tag: _normalised(vector) for tag, vector in texts["tags"].items()}
    return Features(videos, prompts, tags)


def score(annotation: Annotation, features: Features) -> dict[str, Scores]:
    """Score all queries against one database video after the other: v, t and tv."""
    queries = torch.stack([features.videos[query] for query in annotation.queries])
    prompts = torch.stack([features.prompts[query] for query in annotation.queries])
    scores: dict[str, Scores] = {mode: {query: {} for query in annotation.queries} for mode in ("v", "t", "tv")}
    for video in annotation.database:
        frames = features.videos[video]
        v = torch.matmul(queries, frames.T).amax(dim=(1, 2))
        t = torch.matmul(prompts, frames.T).amax(dim=(1, 2))
        for row, query in enumerate(annotation.queries):
            scores["v"][query][video] = v[row].item()
            scores["t"][query][video] = t[row].item()
            scores["tv"][query][video] = (scores["v"][query][video] + scores["t"][query][video]) / 2
    return scores


def metrics(annotation: Annotation, scores: Scores) -> dict[str, float]:
    """Rank every query by itself, and all pairs together for uAP."""
    rows, pooled_scores, pooled_labels = [], [], []
    for query, found in scores.items():
        names = [video for video in found if video != query]
        values = np.array([found[video] for video in names])
        labels = np.array([1 if video in annotation.positives[query] else 0 for video in names])
        rows.append(ranking(values, labels, len(annotation.positives[query])))
        pooled_scores.extend(values.tolist())
        pooled_labels.extend(labels.tolist())
    total = sum(len(annotation.positives[query]) for query in scores)
    pooled = ranking(np.array(pooled_scores), np.array(pooled_labels), total)
    return {**{name: float(np.mean([row[name] for row in rows])) for name in rows[0]}, "uAP": pooled["mAP"]}


def ranking(scores: np.ndarray[Any, Any], labels: np.ndarray[Any, Any], positives: int) -> dict[str, float]:
    """AP and recall of one ranking."""
    ordered = labels[np.argsort(scores)[::-1]]
    hits = np.cumsum(ordered)
    precision = hits / np.arange(1, len(hits) + 1)
    values = {"mAP": float((precision * ordered).sum() / max(positives, 1))}
    for k in KS:
        values[f"recall@{k}"] = float(hits[min(k, len(hits)) - 1] / max(positives, 1))
    return values


def filter_precisions(
    annotation: Annotation, features: Features, scores: Scores, queries: Sequence[str], weight: float = 0.3
) -> dict[str, float]:
    """The mean AP of some queries over their tag expressions: for each video, one product per condition."""
    precisions = {}
    for query in queries:
        rows = []
        for expression, positives in annotation.expressions[query].items():
            if expression.startswith(("AND", "OR")):
                continue
            conditions = [(part[0], features.tags[query][part[1:]]) for part in re.split(r" (?=[+-])", expression)]
            found = {}
            for video in annotation.database:
                adjustment = 0.0
                for sign, vector in conditions:
                    cosine = torch.matmul(vector, features.videos[video].T).max().item()
                    adjustment += cosine if sign == "+" else -cosine
                found[video] = scores[query][video] + weight * adjustment
            labels = np.array([1 if video in positives else 0 for video in found])
            rows.append(ranking(np.array(list(found.values())), labels, len(positives)))
        precisions[query] = float(np.mean([row["mAP"] for row in rows]))
    return precisions


def _normalised(vector: np.ndarray[Any, Any]) -> Tensor:
    tensor = torch.from_numpy(vector).float()
    unit: Tensor = tensor / tensor.norm(dim=-1, keepdim=True)
    return unit
