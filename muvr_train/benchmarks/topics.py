"""Search topics: the groups of queries that a split must not cut through."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def search_topics(
    partition: str,
    given: Mapping[str, str | None],
    positives: Mapping[str, Collection[str]],
    videos: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Query id -> name of its search topic, `<partition>/<topic>`.

    A query with a topic in the annotation has that. The others are grouped with every query they share a positive or
    the query video with, or of which they are a positive, and so on (connected components); a group takes the smallest
    annotated topic it touches, or else the name of its smallest query id. Nothing depends on the order of the input.

    Args:
        partition: Name of the partition.
        given: Query id -> topic in the annotation, None where absent.
        positives: Query id -> ids of its positives.
        videos: Query id -> its video, where that is not the query's own id.
    """
    parent: dict[str, str] = {}
    video_of = videos or {}

    def find(node: str) -> str:
        root = node
        while parent.setdefault(root, root) != root:
            root = parent[root]
        while parent[node] != root:
            parent[node], node = root, parent[node]
        return root

    for query in given:
        for video in positives.get(query, ()):
            parent[find(video_of.get(query, query))] = find(video)
    members: dict[str, list[str]] = {}
    for query in given:
        members.setdefault(find(video_of.get(query, query)), []).append(query)
    names: dict[str, str] = {}
    for queries in members.values():
        annotated = [topic for query in queries if (topic := given[query]) is not None]
        common = min(annotated) if annotated else min(queries).removeprefix(f"{partition}/")
        for query in queries:
            topic = given[query]
            names[query] = f"{partition}/{common if topic is None else topic}"
    return names
