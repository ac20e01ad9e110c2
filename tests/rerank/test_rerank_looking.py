"""evaluate.py rerank=... with an answerer that looks at videos."""

from __future__ import annotations

from collections import defaultdict

import pytest

from muvr_train.benchmarks.muvr import read_muvr
from tests.features.test_copies_extract import write_video
from tests.rerank.reranked import (
    K,
    Workplace,
    answers_of,
    rerank,
)


def test_an_answerer_that_looks_sees_the_files(place: Workplace) -> None:
    """The user's own class compares pixels: what it says follows from the files, and the page shows them."""
    videos = place.folder / "videos"
    seeds = {}
    for number, query in enumerate(sorted(read_muvr(place.annotations).video_ids)):
        path = videos / f"{query}.mp4"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_video(path, seeds.setdefault(query, number), 2)
    looking = ("answerer.looks=true", "rerank.frames=2", "rerank.resolution=32", f"data.videos={videos}")
    place.evaluate(*place.file, *rerank("keep_drop", "mine", *looking), "out=looked", quiet=False)
    row = place.results("looked")["reranked"][0]
    assert row["counts"]["used"] == 20 * K
    assert set(answers_of("looked").values()) == {"Yes", "No."}
    page = (place.folder / "looked/reranking/report.html").read_text(encoding="utf-8")
    assert "news/t0q0" in page
    assert list((place.folder / "looked/reranking/report_files").iterdir())
    report = (place.folder / "looked/report.html").read_text(encoding="utf-8")
    assert f"rerank@{K} (mine)" in report
    assert "seconds a query" in report
    for gain in row["gains"]:
        if gain["partition"] != "mean":
            low, high = gain["interval"]
            assert low <= gain["difference"] <= high


@pytest.mark.slow
def test_the_built_in_corpus_with_its_own_videos_and_masks(place: Workplace) -> None:
    more = ("model=frame_max", "data.size=tiny", "answerer.looks=true", "benchmark.bootstrap=0", "trainer=cpu")
    done = place.call(*more, *rerank("keep_drop", "mine"), "out=tiny")
    assert done.returncode == 0, done.stderr
    row = place.results("tiny")["reranked"][0]
    assert row["counts"]["used"] == 75 * K
    questions = (place.folder / "tiny/questions.jsonl").read_text(encoding="utf-8")
    assert "outlined" in questions
    by_query = defaultdict(set)
    for query, video in answers_of(str(place.folder / "tiny")):
        by_query[query].add(video)
    assert {len(videos) for videos in by_query.values()} == {K}
