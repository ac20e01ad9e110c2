"""Vectors of tags made from their texts, beside frames and prompts."""

from __future__ import annotations

from pathlib import Path

from muvr_train.benchmarks.muvr import read_muvr
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.features.texts import store_with_texts
from muvr_train.runner.data import tag_texts_of
from tests.features.test_texts import MANIFEST, Lengths, make_base
from tests.tagged import make_tagged


def test_tags_are_encoded_once_and_kept_for_every_query(tmp_path: Path) -> None:
    base, encoder = make_base(tmp_path / "base"), Lengths()
    tags = {tag_key(query, tag): tag for query in ("q1", "q2") for tag in ("night", "high-rise buildings")}
    out = store_with_texts(base, MANIFEST, {"q1": "a cat"}, encoder, tags=tags)
    assert sorted(encoder.asked) == ["a cat", "high-rise buildings", "night"]
    store = FeatureStore(out)
    assert store.array(tag_key("q2", "high-rise buildings"), "tags").ravel().tolist() == [19, 2]
    assert sorted(store.ids("tags")) == sorted(tags)
    assert store.ids("text") == ["q1"]
    assert store_with_texts(base, MANIFEST, {"q1": "a cat"}, encoder, tags=tags) == out
    assert len(encoder.asked) == 3
    assert store_with_texts(base, MANIFEST, {"q1": "a cat"}, encoder) != out


def test_tags_are_those_of_the_expressions_as_they_are_read(tmp_path: Path) -> None:
    annotations, _ = make_tagged(tmp_path)
    tags = tag_texts_of(read_muvr(annotations, filters=True))
    assert set(tags.values()) == {"night", "crowd", "high-rise buildings"}
    assert tags[tag_key("news/t0q0", "high-rise buildings")] == "high-rise buildings"
    assert len(tags) == 2 * 9 * 3
    assert tag_texts_of(read_muvr(annotations)) == {}
