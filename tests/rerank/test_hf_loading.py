"""What is wrong with a model or a setting is said at once, and what makes two copies of a model the same."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from muvr_train.errors import ConfigError, DataError
from muvr_train.rerank.answerers.hf import Transformers
from muvr_train.rerank.answerers.hf_folder import fingerprint
from tests.rerank.hf_requests import prepared, request
from tests.rerank.tiny_mllm import build


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("qwen2_vl", tmp_path_factory.mktemp("models") / "original")


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def change(path: Path, **values: Any) -> None:
    content = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({name: value for name, value in content.items() if value is not None}))


def change_text(folder: Path, **values: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    content["text_config"] = {**content["text_config"], "layer_types": None, **values}
    (folder / "config.json").write_text(json.dumps(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def index(folder: Path) -> None:
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))


def text_model(folder: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=400)
    LlamaForCausalLM(config).save_pretrained(folder)


BROKEN: list[tuple[str, Callable[[Path], Any], str]] = [
    ("no folder", shutil.rmtree, "no such folder"),
    ("no configuration", lambda f: (f / "config.json").unlink(), "has no config.json"),
    ("no weights", lambda f: (f / "model.safetensors").unlink(), "has no weights.*downloaded completely"),
    ("a missing shard", index, r"lacks weights that its index names: model-00001-of-00002\.safetensors"),
    ("a broken index", lambda f: (f / "model.safetensors.index.json").write_text("{"), "is not an index of weights"),
    (
        "a pointer",
        lambda f: (f / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid x"),
        "pointer of Git LFS",
    ),
    ("cut weights", lambda f: cut(f / "model.safetensors"), "cannot be loaded.*SafetensorError"),
    ("cut configuration", lambda f: cut(f / "config.json"), "config.json is no configuration"),
    ("configuration of another kind", lambda f: (f / "config.json").write_text("[1]"), "is no configuration"),
    ("no kind", lambda f: change(f / "config.json", model_type=None), "cannot be loaded.*model_type"),
    ("an unknown kind", lambda f: change(f / "config.json", model_type="foo_vl"), "does not recognize.*known to this"),
    (
        "further layers",
        lambda f: change_text(f, num_hidden_layers=3),
        "its weights lack 12 parts of the model: .*layers",
    ),
    ("other sizes", lambda f: change_text(f, intermediate_size=48), "cannot be loaded.*mismatch"),
    ("no chat template", lambda f: (f / "chat_template.jinja").unlink(), "has no chat template; take the variant"),
    ("no processor", lambda f: (f / "processor_config.json").unlink(), "image processor|processor of images"),
    ("no tokenizer", lambda f: (f / "tokenizer.json").unlink(), "cannot be loaded.*tokenizer"),
    ("a model of texts", text_model, "a model of the type llama, it does not answer about images"),
    ("an adapter", lambda f: (f / "adapter_config.json").write_text("{}"), "an adapter; merge it"),
    ("VideoRefer", lambda f: change(f / "config.json", model_type="videorefer_qwen2"), "VideoRefer.*answerer=file"),
]


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_model_that_cannot_be_used_is_named(copy: Path, change: Callable[[Path], Any], message: str) -> None:
    change(copy)
    answerer = Transformers(str(copy))
    with pytest.raises(DataError, match=message) as caught:
        answerer.prepare()
    assert copy.name in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attention": "foo"}, "answerer.attention=foo"),
        ({"attention": "flash_attention_2"}, "answerer.attention=flash_attention_2"),
        ({"device_map": "foo"}, "answerer.device_map=foo cannot be used"),
        ({"device_map": "cuda:77"}, "answerer.device_map=cuda:77 cannot be used"),
        ({"revision": "v2"}, "answerer.revision=v2 is of models of the hub"),
        ({"interface": "minicpm_v"}, "Qwen2VLModel of .* has no method chat"),
        ({"interface": "minicpm_v", "clip_as": "video"}, "takes frames only"),
    ],
)
def test_settings_that_do_not_fit_are_named(original: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Transformers(str(original), **settings).prepare()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": None}, "answerer.model is missing"),
        ({"dtype": "int8"}, "answerer.dtype=int8 .*auto, bfloat16, float16, float32"),
        ({"clip_as": "gif"}, "answerer.clip_as=gif .*frames, video"),
        ({"interface": "x"}, "answerer.interface=x"),
        ({"max_pixels": 0}, r"answerer.max_pixels must be a whole number of at least 1, or null, got 0"),
        ({"max_tokens": 1.5}, "answerer.max_tokens must be .*got 1.5"),
        ({"max_tokens": True}, "answerer.max_tokens must be .*got True"),
        ({"template": "x"}, "answerer.template must be keys with values .*got 'x'"),
        ({"template": {1: 2}}, "answerer.template must be keys with values .*got {1: 2}"),
        ({"processor": 0}, "answerer.processor must be keys with values .*got 0"),
        ({"processor": []}, "answerer.processor must be keys with values .*got \\[\\]"),
        ({"trust_remote_code": "no"}, "answerer.trust_remote_code must be true or false, got 'no'"),
        ({"frame_times": 1}, "answerer.frame_times must be true or false, got 1"),
        ({"revision": 1234567}, "answerer.revision must be a text or null, got 1234567"),
        ({"max_pixels": 10, "min_pixels": 20}, "min_pixels=20 is more than answerer.max_pixels=10"),
    ],
)
def test_impossible_settings_are_refused_before_anything_is_read(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Transformers(**{"model": "m", **settings})


def test_many_devices_need_accelerate(original: Path) -> None:
    try:
        import accelerate  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match=r"device_map=auto .*pip install accelerate"):
            Transformers(str(original), device_map="auto").prepare()
    else:
        answerer = Transformers(str(original), device_map="auto")
        answerer.prepare()
        assert answerer.answer(request()).completion_tokens


def test_a_file_is_not_a_folder(original: Path) -> None:
    with pytest.raises(DataError, match=r"model\.safetensors: is a file; give its folder"):
        Transformers(str(original / "model.safetensors")).prepare()


def test_models_of_the_hub(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    commit = "0123456789abcdef0123456789abcdef01234567"
    place = tmp_path / "models--people--tiny"
    shutil.copytree(original, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    cached = prepared("people/tiny")
    assert cached.name == "people/tiny"
    assert cached.identity() == Transformers(str(original)).identity()
    assert cached.answer(request()) == prepared(original).answer(request())
    for wanted in ({"model": "people/other"}, {"model": "people/tiny", "revision": "v2"}, {"model": "no such name"}):
        with pytest.raises(DataError, match=r"neither a folder here nor a model that the hub gives") as caught:
            Transformers(**wanted).prepare()
        assert all(value in str(caught.value) for value in wanted.values())


def test_what_determines_the_answers_is_the_identity(original: Path, tmp_path: Path) -> None:
    first = Transformers(str(original)).identity()
    json.dumps(first)
    other = shutil.copytree(original, tmp_path / "elsewhere")
    (other / "README.md").write_text("notes")
    (other / ".cache").mkdir()
    assert Transformers(str(other), device_map="cpu", attention="eager").identity() == first
    settings: list[dict[str, Any]] = [
        {"dtype": "float16"},
        {"clip_as": "video"},
        {"frame_times": True},
        {"max_pixels": 999},
        {"min_pixels": 99},
        {"processor": {"do_resize": False}},
        {"template": {"enable_thinking": False}},
        {"max_tokens": 5},
        {"interface": "chat_template"},
        {"trust_remote_code": True},
    ]
    identities = [first, *(Transformers(str(original), **one).identity() for one in settings)]
    identities.append(Transformers(str(build("qwen2_vl", tmp_path / "tuned", seed=1))).identity())
    (other / "chat_template.jinja").write_text("another")
    identities.append(Transformers(str(other)).identity())
    texts = [json.dumps(one, sort_keys=True) for one in identities]
    assert len(set(texts)) == len(texts)


def test_large_weights_are_told_apart_by_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    data, digests = bytes(9 * 2**20), []
    for place in (None, 0, 2**20 + 100_000, len(data) - 1):
        folder = tmp_path / str(place)
        folder.mkdir()
        path = folder / "model-00001-of-00001.safetensors"
        path.write_bytes(data if place is None else data[:place] + b"\1" + data[place + 1 :])
        digests.append(fingerprint(folder))
        assert fingerprint(folder) == digests[-1]
    path.write_bytes(data + b"\0")
    digests.append(fingerprint(folder))
    assert len(set(digests)) == 5
    assert fingerprint(path.parent.rename(tmp_path / "moved")) == digests[-1]


def test_a_missing_package_is_named(original: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "transformers" else find(name, *more)
    )
    with pytest.raises(ConfigError, match=r"needs transformers: pip install 'muvr-train\[mllm\]'"):
        Transformers(str(original)).prepare()


def test_a_package_that_a_processor_needs_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build("smolvlm", tmp_path / "smolvlm")
    monkeypatch.setattr("transformers.models.smolvlm.processing_smolvlm.num2words", None)
    with pytest.raises(ConfigError, match=r"num2words.*pip install 'muvr-train\[mllm\]'"):
        Transformers(str(folder)).prepare()
