"""Visuals on real files: pixels, times, keys that tell content and nothing else, masks, threads, missing files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from muvr_train.errors import DataError
from muvr_train.features.decode import read_frames
from muvr_train.features.sampling import FrameSampler
from muvr_train.rerank import film
from muvr_train.rerank.digests import digest_of
from muvr_train.rerank.kept import KeptPixels
from muvr_train.rerank.outline import outline, shrink_mask
from muvr_train.rerank.pictures import shrink
from muvr_train.rerank.types import Clip, Picture, Question, Visual
from muvr_train.rerank.visuals import Media, image_visual, query_visual, video_visual
from tests.reference.rle import encode_counts

CLIP = "dogs_snow.mp4"


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(film, "KEPT", KeptPixels())


def clip(visual: Visual) -> Clip:
    loaded = visual.load()
    assert isinstance(loaded, Clip)
    return loaded


def still(visual: Visual) -> np.ndarray:
    loaded = visual.load()
    assert isinstance(loaded, Picture)
    return loaded.pixels


def rle(mask: np.ndarray) -> dict[str, Any]:
    return {"size": list(mask.shape), "counts": encode_counts(mask)}


def test_frames_are_those_of_the_decoder_shrunk(shared: Path) -> None:
    path = shared / "data" / "clips" / CLIP
    whole = read_frames(path, FrameSampler(6)).frames
    loaded = clip(video_visual(path, "dogs", 6))
    assert [frame.tobytes() for frame in loaded.frames] == [frame.tobytes() for frame in whole]
    small = clip(video_visual(path, "dogs", 6, 100))
    assert max(small.frames[0].shape) == 100
    assert [frame.tobytes() for frame in small.frames] == [shrink(frame, 100).tobytes() for frame in whole]
    assert loaded.times == small.times
    assert list(loaded.times) == sorted(set(loaded.times))
    assert len(loaded.times) == 6
    with pytest.raises(ValueError, match="read-only"):
        loaded.frames[0][0, 0, 0] = 1


@pytest.mark.parametrize(
    ("name", "frames", "shape", "first"),
    [
        ("video_0.mov", 3, (320, 568, 3), 0.0),
        ("video_90.mov", 3, (568, 320, 3), 0.0),
        ("video_180.mov", 3, (320, 568, 3), 0.0),
        ("five_frames.mp4", 5, None, 0.0),
        ("naïve name – 猫.mp4", 6, (91, 161, 3), None),
        ("-video-with-dash-.mp4", 5, (1, 1, 3), 0.0),
        ("unordered.mov", 4, (50, 50, 3), 0.0),
    ],
)
def test_odd_videos(shared: Path, name: str, frames: int, shape: tuple[int, ...] | None, first: float | None) -> None:
    loaded = clip(video_visual(shared / "data" / "odd_videos" / name, name, 6))
    assert len(loaded.frames) == len(loaded.times) == frames
    assert shape is None or {frame.shape for frame in loaded.frames} == {shape}
    assert first is None or loaded.times[0] == first


def test_damaged_videos_give_their_sound_frames_and_say_so(shared: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded = clip(video_visual(shared / "data" / "odd_videos" / "truncated_60pct.mp4", "cut", 6, 64))
    assert len(loaded.frames) == 6
    assert "truncated_60pct.mp4: damaged" in caplog.text
    assert "its sound frames are used" in caplog.text


@pytest.mark.parametrize("name", ["empty_file.mp4", "lfs_pointer.mp4", "audio_only.mp4"])
def test_broken_videos_are_named(shared: Path, name: str) -> None:
    visual = video_visual(shared / "data" / "odd_videos" / name, "broken", 6)
    assert digest_of(shared / "data" / "odd_videos" / name) in visual.key()  # known: it can be asked again when mended
    for _ in range(2):
        with pytest.raises(DataError, match=name):
            visual.load()


def test_a_file_that_goes_away_is_named(tmp_path: Path) -> None:
    visual = video_visual(tmp_path / "gone.mp4", "gone", 6)
    for call in (visual.key, visual.load):
        with pytest.raises(DataError, match=r"gone\.mp4"):
            call()


def test_keys_tell_content_and_settings_and_no_paths(shared: Path, tmp_path: Path) -> None:
    source = shared / "data" / "clips" / CLIP
    (tmp_path / "masks").mkdir()
    mask = tmp_path / "masks" / "3.png"
    Image.fromarray(np.full((9, 9), 255, np.uint8)).save(mask)
    same = tmp_path / "ähnlich 猫.mp4"
    shutil.copy(source, same)
    keys = {
        name: (make(source).key(), make(same).key())
        for name, make in {
            "6": lambda path: video_visual(path, path.name, 6),
            "1": lambda path: video_visual(path, path.name, 1),
            "6 small": lambda path: video_visual(path, path.name, 6, 100),
            "query": lambda path: query_visual(path, path.name),
            "query, 2 frames": lambda path: query_visual(path, path.name, frames=2),
            "outlined": lambda path: query_visual(path, path.name, mask),
            "folder": lambda path: query_visual(path, path.name, mask.parent),
            "image": lambda path: image_visual(path, path.name),
        }.items()
    }
    assert all(first == second for first, second in keys.values())
    assert len({first for first, _ in keys.values()}) == len(keys)
    assert not any(str(tmp_path) in key or "clips" in key or CLIP in key for key, _ in keys.values())
    before = query_visual(source, "q", mask.parent).key()
    mask.rename(mask.with_name("4.png"))
    assert query_visual(source, "q", mask.parent).key() != before


def test_a_changed_file_has_another_key(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"one")
    visual = image_visual(path, "a")
    before = visual.key()
    assert visual.key() == before
    path.write_bytes(b"two")
    assert visual.key() != before
    path.write_bytes(b"one")
    assert visual.key() == before


def test_keys_are_equal_in_another_process(shared: Path) -> None:
    path = shared / "data" / "clips" / CLIP
    code = (
        "import sys; from pathlib import Path; from muvr_train.rerank.visuals import query_visual as q\n"
        "print(q(Path(sys.argv[1]), 'q', None, 1, 224).key())\n"
        "print([name for name in ('torch', 'av', 'PIL', 'transformers', 'openai') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    assert out.splitlines() == [query_visual(path, "other", None, 1, 224).key(), "[]"]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 10 frames at 5 per second of 64 x 48 pixels, frame n grey 20 n."""
    import av

    path = tmp_path_factory.mktemp("video") / "numbered.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "bgr0"
        for number in range(10):
            frame = np.full((48, 64, 3), 20 * number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))
    return path


def box(height: int = 48, width: int = 64) -> np.ndarray:
    mask = np.zeros((height, width), bool)
    mask[height // 3 : height // 2, width // 3 : width // 2] = True
    return mask


def number_of(picture: np.ndarray) -> int:
    return round(int(picture[-1, -1, 0]) / 20)


def put(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_without_mask_the_middle_frame(numbered: Path) -> None:
    visual = query_visual(numbered, "q")
    assert visual.kind == "image"
    assert (still(visual) == 100).all()
    several = query_visual(numbered, "q", frames=2)
    assert several.kind == "video"
    assert [number_of(frame) for frame in clip(several).frames] == [2, 7]
    assert clip(several).times == (0.4, 1.4)


def test_the_middle_one_of_the_frames_with_a_mask(numbered: Path, tmp_path: Path) -> None:
    masks = put(tmp_path / "m.json", {str(frame): rle(box()) for frame in (1, 6, 7)})
    drawn = still(query_visual(numbered, "q", masks))
    assert drawn.tobytes() == outline(np.full((48, 64, 3), 120, np.uint8), box()).tobytes()
    three = clip(query_visual(numbered, "q", masks, frames=5)).frames
    assert [number_of(frame) for frame in three] == [1, 6, 7]
    assert all((frame == (255, 0, 0)).all(-1).any() for frame in three)


def test_masks_of_seconds_and_of_all_frames(numbered: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    Image.fromarray(box()).save(tmp_path / "folder" / "0.7s.png")  # frame 3 is on display from 0.6 to 0.8 s
    assert number_of(still(query_visual(numbered, "q", tmp_path / "folder"))) == 3
    Image.fromarray(box()).save(tmp_path / "all.png")
    assert number_of(still(query_visual(numbered, "q", tmp_path / "all.png"))) == 5


def test_frames_with_empty_masks_are_not_taken(numbered: Path, tmp_path: Path) -> None:
    empty = rle(np.zeros((48, 64), bool))
    masks = put(tmp_path / "m.json", {"2": empty, "4": empty, "5": rle(box()), "9": empty})
    assert number_of(still(query_visual(numbered, "q", masks))) == 5
    nothing = put(tmp_path / "n.json", {"2": empty, "4": empty})
    with pytest.raises(DataError, match=r"numbered\.mkv: no mask has anything inside, as .*n\.json \(frame [24]\)"):
        query_visual(numbered, "q", nothing).load()


def test_masks_of_another_size(numbered: Path, tmp_path: Path) -> None:
    for name, mask in (("small", box(24, 32)), ("large", box(480, 640))):
        masks = put(tmp_path / f"{name}.json", rle(mask))
        drawn = still(query_visual(numbered, "q", masks))
        assert (drawn == (255, 0, 0)).all(-1).sum() > 30
        assert tuple(drawn[20, 26]) == (100, 100, 100)
    speck = np.zeros((480, 640), bool)
    speck[241, 333] = True  # nearest pixels would lose it
    shrunk = still(query_visual(numbered, "q", put(tmp_path / "speck.json", rle(speck)), resolution=32))
    assert shrunk.shape == (24, 32, 3)
    assert shrunk.tobytes() == outline(np.full((24, 32, 3), 100, np.uint8), shrink_mask(speck, 24, 32)).tobytes()
    with pytest.raises(DataError, match=r"numbered\.mkv: .*which is another shape"):
        query_visual(numbered, "q", put(tmp_path / "tall.json", rle(box(64, 48)))).load()


def test_masks_of_no_frame_and_broken_ones(numbered: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"numbered\.mkv: no mask is for one of its 10 frames"):
        query_visual(numbered, "q", put(tmp_path / "late.json", {"10": rle(box())})).load()
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(DataError, match=r"broken\.json"):
        query_visual(numbered, "q", tmp_path / "broken.json").load()


def test_many_threads_decode_a_video_once(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from muvr_train.features import decode

    calls: list[Path] = []
    real = decode.stream_frames

    def counted(path: Path, *args: Any, **options: Any) -> Any:
        calls.append(path)
        return real(path, *args, **options)

    monkeypatch.setattr(decode, "stream_frames", counted)
    paths = sorted((shared / "data" / "clips").glob("*.mp4"))[:3]
    visuals = [video_visual(path, path.stem, 4, 64) for path in paths] * 5
    start = threading.Barrier(5)

    def load(place: int) -> list[bytes]:
        start.wait()
        return [b"".join(map(bytes, clip(visual).frames)) for visual in visuals[place * 3 : place * 3 + 3]]

    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(load, range(5)))
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == 3
    assert sorted(calls) == paths


def test_what_is_kept_is_bounded_and_failures_are_not_kept() -> None:
    kept, made = KeptPixels(250), []

    def load(name: str) -> Picture:
        made.append(name)
        if name == "bad":
            raise DataError("bad")
        return Picture(np.zeros((100 if name != "huge" else 1000, 1, 1), np.uint8))

    def get(name: str) -> None:
        kept.get(name, lambda: load(name))

    for name in ("a", "b", "a", "c", "a", "b"):  # c pushes b out, which was used longest ago
        get(name)
    assert made == ["a", "b", "c", "b"]
    made.clear()
    for _ in range(2):
        with pytest.raises(DataError):
            get("bad")
        get("huge")
    assert made == ["bad", "huge", "bad", "huge"]


def ask(*visuals: Visual) -> Question:
    return Question("q", "s", ("?", *visuals), ("yes", "no"), "yes")


def test_media_find_files_by_id(tmp_path: Path) -> None:
    for name in (
        "geng/BV1.mp4",
        "news/BV2.MP4",
        "deep/news/BV3.mp4",
        "deep/animal/BV4.mp4",
        "BV5_00.00.00-00.01.00.mkv",
    ):
        (tmp_path / "v" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "v" / name).write_bytes(b"x")
    media = Media.open(tmp_path / "v")
    found = ["others/BV1", "news/BV2", "BV2", "news/BV3", "instance/BV4", "dance/BV5_00.00.00-00.01.00", "BV4"]
    assert Media.missing([ask(*(media.video(name, 1) for name in found))]) == {}
    wrong = [media.video(name, 1) for name in ("dance/BV3", "BV", "news/BV9")] + [media.query("news/BV0", None)]
    assert Media.missing([ask(media.video("BV1", 1), *wrong)]) == {
        ("q", "s"): tuple(
            f"video {name}: no such file in data.videos" for name in ("dance/BV3", "BV", "news/BV9", "news/BV0")
        )
    }
    assert [visual.kind for visual in wrong] == ["video", "video", "video", "image"]
    for call in (wrong[0].key, wrong[0].load):
        with pytest.raises(DataError, match="video dance/BV3: no such file"):
            call()


def test_two_files_of_one_name_are_told(tmp_path: Path) -> None:
    media = Media({"a/x": tmp_path / "a.mp4", "b/x": tmp_path / "b.mp4"})
    assert "several files have this name" in Media.missing([ask(media.video("x", 1))])["q", "s"][0]
    assert Media.missing([ask(media.video("a/x", 1))]) == {}


def test_media_find_images_inside_their_folder_only(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for path in (tmp_path / "images" / "ü.png", tmp_path / "secret.png"):
        Image.new("RGB", (2, 3), (1, 2, 3)).save(path)
    media = Media.open(None, tmp_path / "images")
    assert still(media.image("ü.png")).shape == (3, 2, 3)
    for name in ("../secret.png", str(tmp_path / "secret.png"), "none.png"):
        assert "not in" in Media.missing([ask(media.image(name))])["q", "s"][0]
    assert "data.images" in Media.missing([ask(Media().image("a.png"))])["q", "s"][0]
    assert "data.videos" in Media.missing([ask(Media().video("a", 2))])["q", "s"][0]


def test_media_folders_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"videos=.*/none"):
        Media.open(tmp_path / "none")
    with pytest.raises(DataError, match=r"data\.masks=.*/none"):
        Media.open(None, None, tmp_path / "none")


def test_media_find_masks(tmp_path: Path) -> None:
    (tmp_path / "geng").mkdir()
    put(tmp_path / "geng" / "BV1.json", {})
    (tmp_path / "news").mkdir()
    put(tmp_path / "news" / "BV2.json", {})
    Image.new("1", (2, 2)).save(tmp_path / "news" / "BV2.png")
    media = Media({}, None, tmp_path)
    assert media.masks_of("others/BV1") == tmp_path / "geng" / "BV1.json"
    assert media.masks_of("dance/BV1") is None
    assert media.masks_of("dance/BV1", "geng/BV1.json") == tmp_path / "geng" / "BV1.json"
    assert Media().masks_of("others/BV1") is None
    with pytest.raises(DataError, match="has several masks"):
        media.masks_of("news/BV2")
