"""Permutation tests, effect sizes and Holm's correction against hand-worked values and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from muvr_train.metrics.significance import EXACT, effect_size, holm, sign_flip_p


def brute(values):
    observed = abs(sum(values))
    sums = [
        abs(sum(s * v for s, v in zip(signs, values, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(values))
    ]
    return sum(total >= observed - 1e-12 for total in sums) / len(sums)


@pytest.mark.parametrize("seed", range(5))
def test_exact_p_value_tries_every_sign_pattern(seed):
    values = np.random.default_rng(seed).normal(0.3, 1, 8)
    assert sign_flip_p(values) == pytest.approx(brute(values.tolist()), abs=1e-15)


def test_exact_p_values_by_hand():
    assert sign_flip_p(np.array([0.1, 0.2, 0.4])) == 2 / 8  # only + + + and - - - reach 0.7
    assert sign_flip_p(np.array([0.1, 0.1, 0.1])) == 2 / 8
    assert sign_flip_p(np.array([0.5, -0.5])) == 1.0
    assert sign_flip_p(np.array([0.3])) == 1.0
    assert sign_flip_p(np.array([])) == 1.0
    assert sign_flip_p(np.zeros(50)) == 1.0


def test_topics_that_do_not_differ_change_nothing():
    values = np.array([0.1, 0.2, 0.4])
    assert sign_flip_p(np.concatenate([values, np.zeros(100)])) == sign_flip_p(values)


def test_many_topics_are_drawn_seeded_and_agree_with_the_exact_value():
    values = np.random.default_rng(1).normal(0.15, 1, EXACT)
    longer = np.append(values, 1e-9)  # one topic too many for all patterns, of no weight
    exact = sign_flip_p(values)
    assert 0.02 < exact < 0.9
    assert sign_flip_p(longer) == pytest.approx(exact, abs=0.02)
    assert sign_flip_p(longer) == sign_flip_p(longer)
    assert sign_flip_p(longer) == sign_flip_p(-longer)
    assert sign_flip_p(np.ones(40)) == 1 / 10_001  # never 0


def test_p_values_of_equal_runs_are_uniform():
    rng = np.random.default_rng(0)
    p_values = np.array([sign_flip_p(rng.normal(0, 1, 10)) for _ in range(300)])
    assert np.mean(p_values < 0.05) == pytest.approx(0.05, abs=0.035)
    assert np.mean(p_values < 0.5) == pytest.approx(0.5, abs=0.08)


def test_effect_size():
    assert effect_size(np.array([1.0, 2.0, 3.0])) == pytest.approx(2)
    assert effect_size(np.array([-1.0, 1.0])) == 0
    assert effect_size(np.array([0.0, 0.0])) == 0
    assert effect_size(np.array([0.1, 0.1, 0.1])) is None
    assert effect_size(np.array([0.1])) is None


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]
    assert holm([0.2]) == [0.2]
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    assert holm([0.02, 0.02]) == [0.04, 0.04]
