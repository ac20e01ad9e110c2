"""Text towers: which tokens they get, what happens to long texts."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import open_clip
import pytest
import torch

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.encoders.clip_texts import TextTokenizer
from muvr_train.features.encoders.open_clip_encoder import OpenClipEncoder
from tests.features.tiny_clip import TEXT, VISION, add_tiny_models
from tests.reference.encoders import clip_text_of_windows

START, END = 49406, 49407
LONG = "a man in a red coat walks a small dog along the river while the sun goes down behind the old bridge, slowly"


@pytest.fixture(scope="module", autouse=True)
def tiny_models(tmp_path_factory: pytest.TempPathFactory) -> None:
    add_tiny_models(tmp_path_factory.mktemp("clip_configs"))


def test_long_texts_are_cut_and_keep_their_end_token() -> None:
    tokenizer = TextTokenizer("tiny-vit")
    fits, over = "word " * 14, "word " * 15
    tokens, cut = tokenizer.cut([fits, over, LONG, "Ein Hund läuft", "🐕"])
    assert cut == 2
    assert tokens.shape == (5, 16)
    assert (tokens[:, 0] == START).all()
    assert [row.tolist().count(END) for row in tokens] == [1, 1, 1, 1, 1]
    assert [int(row[15]) for row in tokens[:3]] == [END, END, END]
    assert tokens[0].equal(tokens[1])


@pytest.mark.parametrize("count", [1, 13, 14, 15, 28, 29, 100])
def test_windows_hold_the_whole_text_in_nearly_equal_parts(count: int) -> None:
    tokenizer = TextTokenizer("tiny-vit")
    text = " ".join(["red", "dog", "tree"][i % 3] for i in range(count))
    rows = tokenizer.split(text)
    assert len(rows) == -(-count // 14)
    parts = []
    for row in rows.tolist():
        assert row[0] == START
        end = row.index(END)
        assert not any(row[end + 1 :])
        parts.append(row[1:end])
    assert [token for part in parts for token in part] == open_clip.get_tokenizer("tiny-vit").encode(text)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_mean_of_windows_equals_the_twin() -> None:
    cut, mean = OpenClipEncoder("tiny-vit"), OpenClipEncoder("tiny-vit", text_windows="mean")
    texts = ["a dog", LONG, f"{LONG} {LONG}"]
    found = mean.encode_texts(texts)
    tokenizer = open_clip.get_tokenizer("tiny-vit")
    for text, row in zip(texts, found, strict=True):
        np.testing.assert_allclose(row, clip_text_of_windows(mean.model, tokenizer, text), atol=1e-6)
    (plain,) = cut.encode_texts(texts[:1])
    np.testing.assert_allclose(found[0], plain / np.linalg.norm(plain), atol=1e-6)
    assert np.abs(found[1] - cut.encode_texts(texts)[1]).max() > 1e-3
    assert mean.texts_cut == 0


def test_cut_texts_are_counted_and_named_once(caplog: pytest.LogCaptureFixture) -> None:
    encoder = OpenClipEncoder("tiny-vit")
    with caplog.at_level(logging.WARNING, "muvr_train"):
        encoder.encode_texts(["a dog", LONG])
        encoder.encode_texts([LONG, LONG])
    assert encoder.texts_cut == 3
    assert [record.getMessage() for record in caplog.records if "longer than" in record.getMessage()] == [
        "1 of 2 texts are longer than the 16 tokens of tiny-vit and are cut; text_windows=mean reads them whole"
    ]


def test_the_manifest_tells_windows_only_where_they_are_not_the_default() -> None:
    plain = OpenClipEncoder("tiny-vit").manifest()
    assert plain["text_context_length"] == 16
    assert OpenClipEncoder("tiny-vit", text_windows="mean").manifest() == {**plain, "text_windows": "mean"}
    with pytest.raises(ConfigError, match="cut, mean"):
        OpenClipEncoder("tiny-vit", text_windows="max")


def hugging_face_model(folder: Path, style: str) -> str:
    """A tiny model whose tokenizer is one of the transformers package, from a local folder."""
    tokenizers = pytest.importorskip("tokenizers", reason="needs pip install muvr-train[siglip]")
    transformers = pytest.importorskip("transformers", reason="needs pip install muvr-train[siglip]")
    words = ["<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "red", "dog", "tree", "runs"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: row for row, word in enumerate(words)}, unk_token="<unk>")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    single, special = ("$A </s>", [("</s>", 1)]) if style == "t5" else ("[CLS] $A [SEP]", [("[CLS]", 3), ("[SEP]", 4)])
    made.post_processor = tokenizers.processors.TemplateProcessing(single=single, special_tokens=special)
    marks = {"eos_token": "</s>"} if style == "t5" else {"cls_token": "[CLS]", "sep_token": "[SEP]"}
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", padding_side="right", **marks
    )
    name = f"tiny-{style}"
    wrapped.save_pretrained(folder / f"{name}-tokenizer")
    text = {**TEXT, "context_length": 8, "hf_tokenizer_name": str(folder / f"{name}-tokenizer")}
    text["tokenizer_kwargs"] = {"clean": "canonicalize"}
    config = {"embed_dim": 32, "vision_cfg": VISION["tiny-vit"], "text_cfg": text}
    (folder / f"{name}.json").write_text(json.dumps(config))
    open_clip.add_model_config(folder / f"{name}.json")
    return name


@pytest.mark.parametrize(("style", "start", "end"), [("t5", [], [1]), ("bert", [3], [4])])
def test_tokenizers_of_transformers_keep_their_end_token_too(
    tmp_path: Path, style: str, start: list[int], end: list[int]
) -> None:
    tokenizer = TextTokenizer(hugging_face_model(tmp_path, style))
    text = "Red dog, tree runs red dog tree runs red"
    tokens, cut = tokenizer.cut([text, "red dog"])
    room = 8 - len(start) - len(end)
    assert cut == 1
    assert tokens[0].tolist() == [*start, *[5, 6, 7, 8, 5, 6, 7, 8, 5][:room], *end]
    assert tokens[1].tolist() == [*start, 5, 6, *end, *[0] * (room - 2)]
    rows = tokenizer.split(text)
    pad = [0] * (8 - len(start) - len(end) - 5)
    assert rows.tolist() == [
        [*start, 5, 6, 7, 8, 5, *end, *pad],
        [*start, 6, 7, 8, 5, *end, *pad, 0],
    ]
    assert tokenizer.split("red dog").equal(tokens[1:])


def test_a_missing_tokenizer_says_what_to_install() -> None:
    try:
        import transformers  # noqa: F401
    except ImportError:
        with pytest.raises(DataError, match=r"pip install muvr-train\[siglip\]"):
            TextTokenizer("ViT-B-16-SigLIP")
    else:
        pytest.skip("transformers is installed")


def test_text_embeddings_do_not_depend_on_the_other_texts() -> None:
    encoder = OpenClipEncoder("tiny-vit", text_windows="mean")
    texts = [LONG, "a dog", "red", LONG[:60]]
    together = encoder.encode_texts(texts)
    for text, row in zip(texts, together, strict=True):
        np.testing.assert_allclose(encoder.encode_texts([text])[0], row, atol=1e-5)
    assert together.dtype == np.float32
    assert torch.from_numpy(together).isfinite().all()
