from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muvr_train.errors import ConfigError, DataError
from muvr_train.features.text_hash import HashTextEncoder

WORDS = st.lists(st.sampled_from(["red", "blue", "star", "ring", "über", "猫"]), min_size=1, max_size=6)


def test_vectors_are_the_same_on_every_machine() -> None:
    """The signs are the bits of BLAKE2b("0:0:star"), most significant first; 10011100... was written down once."""
    import hashlib

    bits = "".join(f"{byte:08b}" for byte in hashlib.blake2b(b"0:0:star").digest())
    expected = np.array([1 if bit == "1" else -1 for bit in bits[:64]]) / 8
    np.testing.assert_allclose(HashTextEncoder(64).encode_texts(["star"])[0], expected, atol=1e-7)
    np.testing.assert_allclose(
        HashTextEncoder(64).encode_texts(["Star"])[0, :8], np.array([1, -1, -1, 1, 1, 1, -1, -1]) / 8, atol=1e-7
    )
    assert HashTextEncoder(700).encode_texts(["star"]).shape == (1, 700)


@given(WORDS, st.randoms())
def test_order_case_and_punctuation_do_not_matter(words: list[str], random: object) -> None:
    encoder = HashTextEncoder()
    shuffled = list(words)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = encoder.encode_texts([" ".join(words), ", ".join(shuffled).upper() + "!"])
    np.testing.assert_allclose(one, two, atol=1e-6)
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-6)


def test_words_are_nearly_orthogonal_and_shared_words_show() -> None:
    found = HashTextEncoder(256).encode_texts(["red star", "red ring", "blue cross", "red red star"])
    cosines = found @ found.T
    assert cosines[0, 1] == pytest.approx(0.5, abs=0.15)
    assert abs(cosines[0, 2]) < 0.2
    assert cosines[0, 3] > 0.9
    assert not np.allclose(found[0], found[3])


def test_composed_and_decomposed_letters_are_one_word() -> None:
    one, two = HashTextEncoder().encode_texts(["caf\u00e9", "cafe\u0301"])
    np.testing.assert_array_equal(one, two)


def test_seed_and_manifest() -> None:
    assert not np.allclose(HashTextEncoder().encode_texts(["a"]), HashTextEncoder(seed=1).encode_texts(["a"]))
    assert HashTextEncoder().manifest() == {"text_encoder": "hash_bow_256", "text_seed": 0, "text_aligned": False}


@pytest.mark.parametrize("texts", [[], [""], ["a", " \n"], ["..."], "bare string"])
def test_texts_without_words_are_refused(texts: list[str]) -> None:
    with pytest.raises(DataError):
        HashTextEncoder().encode_texts(texts)


def test_too_small() -> None:
    with pytest.raises(ConfigError):
        HashTextEncoder(16)
