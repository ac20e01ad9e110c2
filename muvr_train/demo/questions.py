"""Made-up questions about the built-in corpus, in the forms of MUVR-QA and IV-Bench.

They show that a run works from end to end; their figures say nothing about either benchmark.
"""

from __future__ import annotations

import json
import os
from itertools import groupby
from pathlib import Path
from random import Random

from muvr_train.benchmarks.muvr_qa import QaRow
from muvr_train.demo.corpus import DemoCorpus, build_demo
from muvr_train.demo.plan import make_plan
from muvr_train.demo.plan_base import HARD
from muvr_train.demo.plan_parts import make_rng
from muvr_train.demo.scenario import Plan, Topic
from muvr_train.demo.tags import Lists, matches_of, plan_tags

NOTE = "made-up questions about the built-in corpus (they show the machinery; no claim about MUVR-QA or IV-Bench)"
VERSION = 1
"""Raise it whenever other questions are made for IV-Bench: it is part of the name of their folder."""
PAIRS = 2
"""Of each partition: one without a tag, one with."""


def demo_qa(size: str = "tiny", cache: Path | None = None) -> tuple[dict[str, list[QaRow]], DemoCorpus]:
    """Give 20 questions in the form of MUVR-QA by partition, and the corpus whose videos and masks they are about.

    Half of them have a tag. The false target is a hard negative, an unrelated video, or a match that fails the tag.

    Args:
        size: of the corpus; its videos are rendered where the cache lacks them.
        cache: the folder of caches, None for `cache_root()`.

    Raises:
        ConfigError: there is no corpus of this size.
    """
    return qa_rows(make_plan(size)), build_demo(size, cache)


def qa_rows(plan: Plan) -> dict[str, list[QaRow]]:
    """The questions of a plan, by partition; see `demo_qa`."""
    names = {video.number: video.id for video in plan.videos}
    tags = plan_tags(plan)
    rows: dict[str, list[QaRow]] = {}
    for place, partition in enumerate(dict.fromkeys(topic.partition for topic in plan.topics)):
        rng = make_rng(plan.seed, partition, "questions")
        topics = rng.sample([topic for topic in plan.topics if topic.partition == partition], PAIRS)
        for tagged, topic in enumerate(topics):
            query = rng.choice(topic.members["query"])
            lists = tags[topic.name].lists[query] if tagged else {}
            expression, true, false = _targets(rng, topic, query, lists, plan, place % 2 == 0)
            text = topic.prompts[topic.members["query"].index(query)]
            rows.setdefault(partition, []).extend(
                QaRow(names[query], names[target], label, text, expression) for target, label in ((true, 1), (false, 0))
            )
    return rows


def _targets(rng: Random, topic: Topic, query: int, lists: Lists, plan: Plan, alike: bool) -> tuple[str, int, int]:
    """A tag expression (or none), a video that matches and one that does not: one that is alike, or another."""
    matches = [number for number in matches_of(topic) if number != query]
    if lists:
        expression = rng.choice(sorted(lists))
        failing = [number for number in matches if number not in lists[expression]]
        return expression, rng.choice(lists[expression]), rng.choice(failing if alike else topic.members[HARD])
    others = topic.members[HARD] if alike else plan.independent[f"{topic.partition}/{topic.split}"]
    return "", rng.choice(matches), rng.choice(others)


def demo_iv(size: str = "tiny", cache: Path | None = None) -> tuple[Path, Path, Path]:
    """Give 20 questions in the form of IV-Bench: the file, the folder of the videos and that of the images.

    Five tasks of four questions; most have 10 options. Images are stills of the corpus's videos, or four of them side
    by side. All lies in the cache below the corpus and is made where it is missing.

    Args:
        size: of the corpus; its videos are rendered where the cache lacks them.
        cache: the folder of caches, None for `cache_root()`.

    Raises:
        ConfigError: there is no corpus of this size.
    """
    from muvr_train.demo.iv_items import draw_image, iv_items

    corpus, plan = build_demo(size, cache), make_plan(size)
    folder = corpus.root / f"questions-v{VERSION}"
    file, images = folder / "iv_bench.jsonl", folder / "images"
    if not file.exists():  # written last
        images.mkdir(parents=True, exist_ok=True)
        items = iv_items(plan)
        for item in items:
            part = images / f".{item.image}.{os.getpid()}.part"
            draw_image(item, plan).save(part, "PNG")
            part.replace(images / item.image)
        part = folder / f".{file.name}.{os.getpid()}.part"
        lines = [{video: [item.entry() for item in own]} for video, own in groupby(items, lambda item: item.video)]
        part.write_text("".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines), encoding="utf-8")
        part.replace(file)
    return file, corpus.videos, images
