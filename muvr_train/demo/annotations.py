"""A plan as MUVR's five annotation files per partition."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from muvr_train.demo.plan_base import HARD
from muvr_train.demo.scenario import Plan, Topic, Video
from muvr_train.demo.spec import FPS
from muvr_train.demo.tags import TopicTags, plan_tags

Json = dict[str, object]


def write_annotations(plan: Plan, folder: Path) -> None:
    """Write `<folder>/<partition>/{videos,queries_en,query_tags,query_rel_lists,query_tag_lists}.json`."""
    tagged = plan_tags(plan)
    for partition in dict.fromkeys(video.partition for video in plan.videos):
        videos = [video for video in plan.videos if video.partition == partition]
        topics = [topic for topic in plan.topics if topic.partition == partition]
        by_number = {video.number: video for video in videos}
        files: dict[str, object] = {
            "videos": [_video_entry(video) for video in videos],
            "queries_en": [entry for topic in topics for entry in _query_entries(topic, by_number)],
            "query_tags": {str(query): tags.tags for tags in _of(topics, tagged) for query in tags.lists},
            "query_rel_lists": [entry for topic in topics for entry in _relations(topic, plan)],
            "query_tag_lists": [
                {"query_id": query, "tag_lists": {text: {"id_list": list(ids)} for text, ids in lists.items()}}
                for tags in _of(topics, tagged)
                for query, lists in tags.lists.items()
            ],
        }
        target = folder / partition
        target.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            part = target / f".{name}.{os.getpid()}.part"
            part.write_text(json.dumps(content, indent=1), encoding="utf-8")
            part.replace(target / f"{name}.json")


def _of(topics: list[Topic], tagged: Mapping[str, TopicTags]) -> list[TopicTags]:
    return [tagged[topic.name] for topic in topics]


def _video_entry(video: Video) -> Json:
    return {
        "id": video.number,
        "topic_id": video.topic,
        "video_name": video.id,
        "timestamp": f"00.00.00-00.00.{video.frames // FPS:02d}",
        "frames_path": f"frames/{video.partition}/{video.id}",
        "is_query": int(video.role == "query"),
    }


def _query_entries(topic: Topic, by_number: dict[int, Video]) -> list[Json]:
    return [
        {
            "id": number,
            "topic_id": topic.index,
            "frames_path": f"frames/{topic.partition}/{by_number[number].id}",
            "prompt_en": prompt,
            "split": topic.split,
        }
        for number, prompt in zip(topic.members["query"], topic.prompts, strict=True)
    ]


def _relations(topic: Topic, plan: Plan) -> list[Json]:
    """Lists per query: the topic's other queries are matches at the level that most of its videos have."""
    levels = {role: ids for role, ids in topic.members.items() if role not in ("query", HARD)}
    usual = max(levels, key=lambda role: len(levels[role]))
    unrelated = plan.independent.get(f"{topic.partition}/{topic.split}", ())
    entries: list[Json] = []
    for query in topic.members["query"]:
        others = tuple(number for number in topic.members["query"] if number != query)
        lists = {role: (*(others if role == usual else ()), *ids) for role, ids in levels.items()}
        lists["pos_all"] = tuple(sorted({number for ids in lists.values() for number in ids}))
        lists[HARD] = topic.members.get(HARD, ())
        lists["independent"] = unrelated
        rel_lists = {role: {"id_list": list(ids)} for role, ids in lists.items() if ids}
        entries.append({"query_id": query, "rel_lists": rel_lists})
    return entries
