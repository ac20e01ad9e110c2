"""The rendered corpus: real mp4 files in MUVR's layout, deterministic, resumable."""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.benchmarks.splits import apply_splits
from muvr_train.demo.corpus import DemoCorpus, build_demo, find_demo, render_videos, video_path
from muvr_train.demo.draw import draw_card, draw_video
from muvr_train.demo.plan import make_plan
from muvr_train.demo.spec import FPS, FRAME_SIZE, FRAMES, PARTITIONS, SPLITS
from muvr_train.features.masks import find_masks

PLAN = make_plan("tiny")
BRIGHTNESS = {
    "news01-copy2": [155, 170, 164, 175, 147, 161, 153, 130, 110, 113, 105, 102],
    "others01-copy5": [196, 168, 176, 150, 153, 139, 150, 141, 117, 131, 123, 111],
    "instance01-instance5": [163, 151, 141, 151, 139, 148, 131, 132, 180, 172, 183, 177],
    "region01-scene5": [166, 214, 193, 193, 127, 168, 158, 149, 126, 140, 141, 139],
    "dance01-action5": [111, 94, 89, 100, 81, 91, 84, 89, 126, 125, 129, 143],
}
"""Of twelve parts of frame 30 of videos of size large, as version 1 draws them."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def corpus(cache) -> DemoCorpus:
    return build_demo("tiny", cache)


def decode(path: Path) -> np.ndarray:
    with av.open(str(path)) as container:
        assert container.streams.video[0].average_rate == FPS
        return np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])


def stamps(corpus: DemoCorpus) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in corpus.root.rglob("*") if path.is_file()}


def test_every_file_is_there_and_nothing_else(corpus, cache):
    wanted = {video_path(corpus.videos, video) for video in PLAN.videos}
    assert set(corpus.videos.rglob("*.*")) == wanted
    assert corpus.root.parent == cache / "demo"
    assert {path.name for path in corpus.root.iterdir()} == {"videos", "annotations-v2", "masks-v2"}
    assert {path.name for path in corpus.annotations.iterdir()} == set(PARTITIONS)


def test_videos_decode_to_what_was_drawn(corpus):
    for partition in PARTITIONS:
        video = next(video for video in PLAN.videos if video.partition == partition)
        pixels = decode(video_path(corpus.videos, video))
        assert pixels.shape == (FRAMES, FRAME_SIZE[1], FRAME_SIZE[0], 3)
        drawn = np.stack([np.asarray(frame) for frame in draw_video(video)])
        assert np.abs(pixels.astype(float) - drawn).mean() < 8
        assert np.abs(np.diff(drawn.astype(float), axis=0)).mean() > 0.2


def test_the_reader_reads_it_without_a_warning(corpus):
    benchmark = apply_splits(read_muvr(corpus.annotations), fractions=tuple(SPLITS.values()))
    assert benchmark.warnings == ()
    assert [partition.name for partition in benchmark.partitions] == list(PARTITIONS)
    assert len(benchmark.queries) == 5 * 5 * 3
    for query in benchmark.queries:
        assert query.text
        assert query.split == query.annotated_split
    for video in benchmark.video_ids:
        assert (corpus.videos / f"{video}.mp4").is_file()
    for judgement in benchmark.judgements:
        assert len(judgement.hard_negatives) == 1
        assert len(judgement.positives) == 4  # two other queries, two database videos
        assert "match" not in judgement.positives.values()
        assert judgement.query not in judgement.positives
    levels = {p.name: {lev for j in p.judgements for lev in j.positives.values()} for p in benchmark.partitions}
    assert levels["news"] == {"copy", "event"}
    assert levels["dance"] == {"action"}


def test_a_complete_corpus_is_left_alone(corpus, cache):
    before = stamps(corpus)
    assert build_demo("tiny", cache) == find_demo("tiny", cache) == corpus
    assert stamps(corpus) == before


def test_a_corpus_with_a_lost_file_is_not_found(corpus, cache, tmp_path):
    assert find_demo("tiny", tmp_path) is None
    path = video_path(corpus.videos, PLAN.videos[3])
    path.rename(tmp_path / "kept")
    assert find_demo("tiny", cache) is None
    (tmp_path / "kept").rename(path)
    assert find_demo("tiny", cache) == corpus


def test_a_lost_file_is_rendered_again_to_the_same_bytes(corpus, cache):
    path = video_path(corpus.videos, PLAN.videos[7])
    digest = hashlib.sha256(path.read_bytes()).digest()
    before = stamps(corpus)
    path.unlink()
    build_demo("tiny", cache, workers=0)
    assert hashlib.sha256(path.read_bytes()).digest() == digest
    assert {file for file, stamp in stamps(corpus).items() if before[file] != stamp} == {path}


def test_another_process_with_another_hash_seed_renders_the_same(corpus, tmp_path):
    """Neither `hash()` nor the worker nor what was drawn before may show in the picture."""
    video = PLAN.videos[-1]
    (tmp_path / video.partition).mkdir()
    code = (
        "import sys; from pathlib import Path; from muvr_train.demo.plan import make_plan; "
        "from muvr_train.demo.corpus import render_video; render_video(make_plan('tiny').videos[-1], Path(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment)
    assert video_path(tmp_path, video).read_bytes() == video_path(corpus.videos, video).read_bytes()


@pytest.mark.parametrize("name", BRIGHTNESS)
def test_videos_are_drawn_as_ever(name):
    """Where this fails, `spec.VERSION` must be raised: caches and published figures are of other pictures."""
    video = next(video for video in make_plan("large").videos if video.id == name)
    picture = next(islice(draw_video(video), 30, None)).convert("L")
    found = np.asarray(picture.resize((4, 3), Image.Resampling.BOX)).ravel().astype(int)
    assert np.abs(found - BRIGHTNESS[name]).max() <= 1


def test_the_name_tells_what_is_annotated(corpus):
    """Where this fails, `spec.ANNOTATION` must be raised: caches hold other annotations or masks."""
    assert corpus.name == "tiny-v1-63943f393d, annotation v2 92a0f9c002"


def test_tag_expressions_are_read(corpus):
    benchmark = read_muvr(corpus.annotations, filters=True)
    assert benchmark.warnings == ()
    for partition in benchmark.partitions:
        positives = {judgement.query: judgement.positives for judgement in partition.judgements}
        assert {row.query for row in partition.filters} == set(partition.query_ids)
        for row in partition.filters:
            assert 0 < len(row.positives) < len(positives[row.query])
            assert row.positives.items() <= positives[row.query].items()
    assert all(len(query.tags) >= 3 for query in benchmark.queries)


def test_masks_are_where_the_reader_looks(corpus):
    benchmark = read_muvr(corpus.annotations)
    found = find_masks(corpus.masks, benchmark)
    assert set(found) == {query.id for query in benchmark.queries if query.partition in ("region", "instance")}


def test_a_corpus_of_before_gets_its_annotations_alone(corpus, cache, tmp_path):
    """Videos that were rendered when there were no tags yet are taken as they are."""
    old = tmp_path / "demo" / corpus.root.name
    old.mkdir(parents=True)
    shutil.copytree(corpus.videos, old / "videos")
    (old / "annotations").mkdir()
    before = {path: path.stat().st_mtime_ns for path in (old / "videos").rglob("*.mp4")}
    assert find_demo("tiny", tmp_path) is None
    assert build_demo("tiny", tmp_path).name == corpus.name
    assert {path: path.stat().st_mtime_ns for path in (old / "videos").rglob("*.mp4")} == before


def test_another_seed_shows_something_else():
    other = make_plan("tiny", seed=1)
    first, second = (np.asarray(list(draw_video(plan.videos[0]))[-1]).astype(float) for plan in (PLAN, other))
    assert np.abs(first - second).mean() > 10


def test_a_failed_rendering_leaves_no_file(tmp_path):
    video = PLAN.videos[0]

    def broken():
        yield from islice(draw_video(video), 30)
        raise RuntimeError("the lights went out")

    from muvr_train.demo.encode import write_video

    with pytest.raises(RuntimeError, match="lights"):
        write_video(tmp_path / "video.mp4", broken())
    assert list(tmp_path.iterdir()) == []


def test_title_cards_are_different_pictures():
    cards = [np.asarray(draw_card(number)).astype(float) for number in range(10)]
    for index, card in enumerate(cards):
        for other in cards[:index]:
            assert np.abs(card - other).mean() > 8


@pytest.mark.slow
def test_a_killed_build_is_continued(tmp_path):
    """SIGKILL after a few files: the finished ones are kept, the rest is added, no worker stays."""
    script, folder = tmp_path / "build.py", tmp_path / "videos"
    script.write_text(
        "import sys; from pathlib import Path; from muvr_train.demo.corpus import render_videos\n"
        "from muvr_train.demo.plan import make_plan\n"
        "if __name__ == '__main__': render_videos(make_plan('tiny').videos[:40], Path(sys.argv[1]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, str(script), str(folder)], env=environment, stderr=subprocess.DEVNULL)
    while len(_finished(folder)) < 3:
        assert process.poll() is None, "the build ended before it could be killed"
        time.sleep(0.02)
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(workers) >= 2
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{worker}/cmdline").exists() for worker in workers):
        assert time.monotonic() < deadline, "a worker outlives its parent"
        time.sleep(0.02)
    finished = _finished(folder)
    assert len(finished) < 40
    before = {path: path.stat().st_mtime_ns for path in finished}
    render_videos(PLAN.videos[:40], folder)
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert _finished(folder) == {video_path(folder, video) for video in PLAN.videos[:40]}
    for path in before:
        assert len(decode(path)) == FRAMES


def _finished(cache: Path) -> set[Path]:
    return set(cache.rglob("*.mp4"))


@pytest.mark.parametrize("how", ["standard input", "unguarded script"])
def test_programs_that_processes_cannot_import_again(tmp_path, how):
    """Then the main process renders everything itself, instead of failing."""
    code = (
        f"from pathlib import Path; from muvr_train.demo.corpus import render_videos\n"
        f"from muvr_train.demo.plan import make_plan\n"
        f"render_videos(make_plan('tiny').videos[:2], Path({str(tmp_path / 'videos')!r}))"
    )
    script = tmp_path / "script.py"
    script.write_text(code)
    arguments = [sys.executable, "-"] if how == "standard input" else [sys.executable, str(script)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(arguments, input=code, text=True, check=True, env=environment, capture_output=True)
    assert _finished(tmp_path) == {video_path(tmp_path / "videos", video) for video in PLAN.videos[:2]}


def test_rendering_needs_no_heavy_import():
    """Workers are spawned: what they import costs every build."""
    code = (
        "import sys, muvr_train.demo.corpus; from muvr_train.demo.plan import make_plan; make_plan('tiny'); "
        "sys.exit(sorted({'torch', 'cv2', 'hydra', 'lightning'} & sys.modules.keys()) != [])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
