"""Texts, tags and regions of annotated queries beside the frames: real videos, a tiny CLIP, both annotation kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch

from muvr_train import extract
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.annotate import Annotations, add_annotations, load_annotations, prepare_store
from muvr_train.features.annotations import annotated_videos
from muvr_train.features.encoders.base import FrameEncoder
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from muvr_train.features.extract import ExtractSettings
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.training.extraction import extract_folder
from tests.features.test_masks import save
from tests.features.test_regions import Colours, box, write_video

SETTINGS = ExtractSettings(dtype="float32", workers=1, progress=False)
SAMPLER = FrameSampler(4)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> OpenClipEncoder:
    folder = tmp_path_factory.mktemp("clip_configs")
    vision = {"image_size": 32, "patch_size": 8, "width": 32, "layers": 1, "head_width": 16}
    text = {"context_length": 24, "vocab_size": 49408, "width": 16, "heads": 2, "layers": 1}
    (folder / "tiny-marked.json").write_text(json.dumps({"embed_dim": 8, "vision_cfg": vision, "text_cfg": text}))
    open_clip.add_model_config(folder)
    return OpenClipEncoder("tiny-marked", batch_size=3)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("videos")
    for number, name in enumerate(("q", "match", "other")):
        write_video(folder / "news" / f"{name}.mp4", 8 + number)
    return folder


def table(
    folder: Path, text: str = "the dog [<region>], running", tags: tuple[str, ...] = ("+indoor", "- night")
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "videos.csv").write_text("video\nnews/q\nnews/match\nnews/other\n")
    entries = [
        {"id": "q ü", "video": "news/q", "text": text, "tags": list(tags)},
        {"id": "no text", "video": "news/match"},
    ]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, entries)))
    (folder / "relevance.csv").write_text("query,video,label\nq ü,news/match,1\nno text,news/q,1\n")
    return folder


def muvr(folder: Path, text: str = "a man <mask1>") -> Path:
    target = folder / "news"
    target.mkdir(parents=True)
    names = ("q", "match", "other")
    entries = [{"id": i, "frames_path": f"f/news/{name}", "is_query": int(i == 0)} for i, name in enumerate(names)]
    relations = {"pos_all": {"id_list": [1]}, "independent": {"id_list": [2]}}
    files: dict[str, Any] = {
        "videos": entries,
        "queries_en": [{"id": 0, "topic_id": 1, "frames_path": "f/news/q", "prompt_en": text}],
        "query_tags": {"0": ["night", "+day"]},
        "query_rel_lists": [{"query_id": 0, "rel_lists": relations}],
        "query_tag_lists": [{"query_id": 0, "tag_lists": {"+night": {"id_list": [1]}, "-rain": {"id_list": []}}}],
    }
    for name, content in files.items():
        (target / f"{name}.json").write_text(json.dumps(content))
    return folder


def run(out: Path, encoder: FrameEncoder, videos: Path, annotations: Path, added: Annotations) -> Any:
    """What the command does."""
    items = annotated_videos(videos, annotations, added.benchmark)
    prepare_store(out, encoder, added)
    report = extract_folder(items, encoder, out, SAMPLER, SETTINGS, added.manifest())
    assert report is not None
    assert report.ok
    return add_annotations(out, encoder, added, items, SAMPLER, SETTINGS)


def test_a_table_with_masks_end_to_end(tmp_path: Path, encoder: OpenClipEncoder, videos: Path) -> None:
    folder = table(tmp_path / "table")
    mask = box(slice(16, 32), slice(32, 48), (64, 128))  # the picture's centre is cropped to 64 x 64, four cells of 16
    for frame in (1, 3, 5, 6, 7):
        save(tmp_path / "masks" / "q ü" / f"{frame}.png", mask)
    added = load_annotations(folder, tmp_path / "masks")
    report = run(tmp_path / "store", encoder, videos, folder, added)
    assert report.ok
    assert [" ".join(line.split()) for line in report.lines()] == [
        "texts 1 (1 new)",
        "tags 2 (2 new)",
        "placeholders drop (1 texts changed)",
        f"regions 1 (1 new; 1 ok; see {tmp_path / 'store' / 'regions.csv'})",
    ]
    store = FeatureStore(tmp_path / "store")
    assert sorted(store.ids()) == ["news/match", "news/other", "news/q"]
    texts = encoder.encode_texts(["the dog, running", "indoor", "night"])
    keys = {"q ü": "text", tag_key("q ü", "indoor"): "tags", tag_key("q ü", "night"): "tags"}
    for (key, stream), vector in zip(keys.items(), texts, strict=True):
        assert np.allclose(store.array(key, stream), vector, atol=1e-6)
    assert json.loads((tmp_path / "store" / "texts.json").read_text())["text"] == {"q ü": "the dog, running"}
    assert (store.manifest["text_encoder"], store.manifest["text_aligned"]) == ("tiny-marked", True)
    assert "placeholders" not in store.manifest
    cells = maps_of(encoder, videos / "news" / "q.mp4", [1, 3, 6, 7])  # four of five masked frames
    assert np.allclose(store.array("q ü", "region"), cells[:, 1, 0, None], atol=1e-5)
    again = run(tmp_path / "store", encoder, videos, folder, added)
    assert "(0 new; 1 ok" in again.lines()[-1]
    assert again.regions == report.regions


def maps_of(encoder: OpenClipEncoder, path: Path, indices: list[int]) -> np.ndarray:
    import av

    with av.open(str(path)) as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    return encoder.encode_maps(encoder.prepare(np.stack([frames[index] for index in indices])))


def test_muvr_with_another_rule(tmp_path: Path, encoder: OpenClipEncoder, videos: Path) -> None:
    folder = muvr(tmp_path / "muvr")
    report = run(tmp_path / "store", encoder, videos, folder, load_annotations(folder, None, "name"))
    assert [" ".join(line.split()) for line in report.lines()] == [
        "texts 1 (1 new)",
        "tags 3 (3 new)",
        "placeholders name (1 texts changed)",
    ]
    store = FeatureStore(tmp_path / "store")
    assert store.manifest["placeholders"] == "name"
    assert sorted(store.ids("tags")) == sorted(tag_key("news/q", tag) for tag in ("night", "day", "rain"))
    expected = encoder.encode_texts(["a man the marked object"])[0]
    assert np.allclose(store.array("news/q", "text"), expected, atol=1e-6)
    with pytest.raises(DataError, match=r"made differently.*\n  placeholders: 'name' there, None here"):
        run(tmp_path / "store", encoder, videos, folder, load_annotations(folder))


def test_texts_come_into_a_store_without_texts(tmp_path: Path, encoder: OpenClipEncoder, videos: Path) -> None:
    folder = muvr(tmp_path / "muvr")
    extract_folder(videos, encoder, tmp_path / "store", SAMPLER, SETTINGS)
    before = FeatureStore(tmp_path / "store").array("news/q").copy()
    report = run(tmp_path / "store", encoder, videos, folder, load_annotations(folder, None, "keep"))
    store = FeatureStore(tmp_path / "store")
    assert store.manifest["placeholders"] == "keep"
    assert np.array_equal(store.array("news/q"), before)
    assert store.has("news/q", "text")
    assert report.rows["placeholders"] == "keep (0 texts changed)"


def test_a_store_of_other_frames_is_refused_and_left_as_it_is(
    tmp_path: Path, encoder: OpenClipEncoder, videos: Path
) -> None:
    folder, store = muvr(tmp_path / "muvr"), tmp_path / "store"
    added = load_annotations(folder, None, "keep")
    items = annotated_videos(videos, folder, added.benchmark)
    extract_folder(items, Colours(), tmp_path / "colours", SAMPLER, SETTINGS)
    before = (tmp_path / "colours" / "manifest.json").read_bytes()
    for attempt in (
        lambda: prepare_store(tmp_path / "colours", encoder, added),
        lambda: add_annotations(tmp_path / "colours", encoder, added, items, SAMPLER, SETTINGS),
    ):
        with pytest.raises(DataError, match="encoder: 'colours' there"):
            attempt()
    assert (tmp_path / "colours" / "manifest.json").read_bytes() == before
    assert not (tmp_path / "colours" / "texts.json").exists()

    extract_folder(items, encoder, store, SAMPLER, SETTINGS)
    before = (store / "manifest.json").read_bytes()
    for wrong in ({"sampling": FrameSampler(7).manifest()}, {"dtype": "bfloat16"}):
        with pytest.raises(DataError, match=f"{next(iter(wrong))}: .* there, .* here"):
            prepare_store(store, encoder, added, wrong)
    assert (store / "manifest.json").read_bytes() == before
    right = {"sampling": SAMPLER.manifest(), "dtype": SETTINGS.dtype}
    prepare_store(store, encoder, added, right)
    assert json.loads((store / "manifest.json").read_text())["placeholders"] == "keep"


def test_one_bad_vector_is_counted_and_stops_no_other(
    tmp_path: Path, encoder: OpenClipEncoder, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = muvr(tmp_path / "muvr")
    save(tmp_path / "masks" / "news" / "q.png", np.ones((64, 128), bool))
    added = load_annotations(folder, tmp_path / "masks")

    def spoiled(texts: Any) -> Any:
        vectors = OpenClipEncoder.encode_texts(encoder, texts)
        vectors[[text == "day" for text in texts]] = np.inf
        return vectors

    def hollow(x: torch.Tensor, stream: str = "video") -> Any:
        return np.full_like(OpenClipEncoder.encode_maps(encoder, x, stream), np.nan)

    monkeypatch.setattr(encoder, "encode_texts", spoiled)
    monkeypatch.setattr(encoder, "encode_maps", hollow)
    for new in (2, 0):  # the second time nothing stops either
        report = run(tmp_path / "store", encoder, videos, folder, added)
        assert not report.ok
        assert report.rows["tags"] == f"2 ({new} new; 1 failed)"
        assert report.rows["texts"] == f"1 ({min(new, 1)} new)"
        assert report.rows["regions"].startswith("0 (0 new; 1 failed; see ")
        assert [failure.id for failure in report.failures] == ["news/q"]
        assert "not finite" in report.failures[0].reason
        assert [line for line in report.lines() if "(stream 'tags') hold values that are not finite" in line]
    monkeypatch.undo()
    report = run(tmp_path / "store", encoder, videos, folder, added)
    assert report.ok
    assert report.rows["tags"] == "3 (1 new)"
    assert report.rows["regions"].startswith("1 (1 new; 1 ok;")


def test_changed_texts_are_refused_and_new_ones_added(tmp_path: Path, encoder: OpenClipEncoder, videos: Path) -> None:
    run(tmp_path / "store", encoder, videos, table(tmp_path / "t"), load_annotations(tmp_path / "t"))
    table(tmp_path / "t", tags=("+indoor", "+rain"))
    report = run(tmp_path / "store", encoder, videos, tmp_path / "t", load_annotations(tmp_path / "t"))
    assert report.rows["tags"] == "2 (1 new)"
    table(tmp_path / "t", text="a cat")
    with pytest.raises(DataError, match=r"q ü \(first: 'the dog, running' there, 'a cat' here\)"):
        run(tmp_path / "store", encoder, videos, tmp_path / "t", load_annotations(tmp_path / "t"))


def test_failed_regions_are_reported(tmp_path: Path, encoder: OpenClipEncoder, videos: Path) -> None:
    folder = table(tmp_path / "t")
    save(tmp_path / "masks" / "q ü.png", np.ones((64, 64), bool))
    report = run(tmp_path / "store", encoder, videos, folder, load_annotations(folder, tmp_path / "masks"))
    assert not report.ok
    assert [failure.id for failure in report.failures] == ["q ü"]
    assert report.lines()[-2].startswith("regions       0 (0 new; 1 failed; see ")
    assert "q ü: " in report.lines()[-1]
    assert "q ü.png: the mask is 64 x 64 pixels, the frame 128 x 64" in report.lines()[-1]


def test_encoders_without_text_tower(tmp_path: Path, videos: Path) -> None:
    folder = table(tmp_path / "t")
    with pytest.raises(ConfigError, match="encoder colours has no text tower"):
        prepare_store(tmp_path / "store", Colours(), load_annotations(folder))
    save(tmp_path / "masks" / "q ü.png", np.ones((64, 128), bool))
    report = run(tmp_path / "store", Colours(), videos, folder, load_annotations(folder, tmp_path / "masks"))
    assert report.rows["texts"] == "none: encoder colours has no text tower"
    store = FeatureStore(tmp_path / "store")
    assert (store.streams, store.manifest["text_encoder"]) == (("video", "region"), None)
    assert np.allclose(store.array("q ü", "region"), 255 * store.array("news/q"), atol=1e-3)


def test_faults_have_names(tmp_path: Path, videos: Path) -> None:
    with pytest.raises(DataError, match=r"news/q \('<mask1>'\)"):
        load_annotations(muvr(tmp_path / "a", "<mask1>"))
    with pytest.raises(ConfigError, match="placeholders=x is not possible"):
        load_annotations(muvr(tmp_path / "b"), None, "x")
    folder = muvr(tmp_path / "c")
    (folder / "news" / "query_tags.json").write_text('{"0": ["+ "]}')
    with pytest.raises(DataError, match=r"1 tags say nothing.*news/q"):
        load_annotations(folder)
    folder = muvr(tmp_path / "d")
    with pytest.raises(DataError, match=r"holds none of the 3 videos.*the annotation has news/.*the folder has match"):
        annotated_videos(videos / "news", folder, load_annotations(folder).benchmark)
    (tmp_path / "masks").mkdir()
    save(tmp_path / "masks" / "nobody" / "1.png")
    with pytest.raises(DataError, match=r"1 files belong to no query: nobody/1\.png.*the queries are news/q"):
        load_annotations(folder, tmp_path / "masks")


def test_a_kill_between_texts_and_regions_loses_nothing(
    tmp_path: Path, encoder: OpenClipEncoder, videos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = table(tmp_path / "t")
    save(tmp_path / "masks" / "q ü.png", np.ones((64, 128), bool))
    added = load_annotations(folder, tmp_path / "masks")

    def stop(x: torch.Tensor, stream: str = "video") -> Any:
        if len(x) > 1:
            raise KeyboardInterrupt
        return OpenClipEncoder.encode_maps(encoder, x, stream)

    monkeypatch.setattr(encoder, "encode_maps", stop)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "store", encoder, videos, folder, added)
    assert FeatureStore(tmp_path / "store").has("q ü", "text")
    monkeypatch.undo()
    report = run(tmp_path / "store", encoder, videos, folder, added)
    assert report.rows["texts"] == "1 (0 new)"
    assert report.rows["regions"].startswith("1 (1 new; 1 ok;")


def test_the_command(
    tmp_path: Path, encoder: OpenClipEncoder, videos: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, masks = muvr(tmp_path / "muvr"), tmp_path / "my masks"
    save(masks / "news" / "q" / "2.png", np.ones((64, 128), bool))
    tiny = ("architecture=tiny-marked", "tag=null", "pretrained=null", "dim=null", "name=tiny-marked")
    settings = {"videos": videos, "annotations": folder, "masks": masks, "out": tmp_path / "store"}
    arguments = ["encoder=clip_vit_b32", *(f"encoder.{setting}" for setting in tiny), "frames=4", "device=cpu"]
    cfg, _ = extract.compose([*arguments, *(f"{key}={value}" for key, value in settings.items())])
    assert extract.run(cfg) == 0
    shown = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown[-4:] == [
        "texts 1 (1 new)",
        "tags 3 (3 new)",
        "placeholders drop (1 texts changed)",
        f"regions 1 (1 new; 1 ok; see {tmp_path / 'store' / 'regions.csv'})",
    ]
    store = FeatureStore(tmp_path / "store")
    assert store.streams == ("video", "text", "tags", "region")
    assert np.allclose(store.array("news/q", "text"), encoder.encode_texts(["a man"])[0], atol=1e-2)  # float16
    save(masks / "news" / "match.png", np.ones((64, 128), bool))
    with pytest.raises(DataError, match=r"belong to no query: news/match\.png"):
        extract.run(cfg)
