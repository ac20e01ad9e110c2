"""What must not change the scores of a similarity network."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, named_errors
from muvr_train.conformance.network_trial import NetworkTrial
from muvr_train.conformance.world import blanked
from muvr_train.types import Tokens


def check_scores(trial: NetworkTrial) -> None:
    """What must not change a score."""
    q, n = trial.sides()
    scores = trial.score(q, n)
    trial.subject.require_matrix(scores, (len(q), len(n)), "the score")
    trial.check_range(scores)
    _check_repeated(trial, scores)
    _check_same(trial, scores)
    _check_weights(trial, scores)
    _check_saved(trial, scores)


def check_training_scores(trial: NetworkTrial) -> None:
    """What must not change a score in train mode: otherwise several processes, or less memory, change a run."""
    evaluated = trial.score(*trial.sides())
    with trial.training():
        if not trial.network.divisible:  # such as batch norm
            return
        torch.manual_seed(trial.seed)
        scores = trial.score(*trial.sides())
        torch.manual_seed(trial.seed + 1)
        problem = "is random even without dropout (what is random must be an nn.Dropout, which is off here)"
        trial.subject.require_equal(scores, trial.score(*trial.sides()), problem)
        _check_same(trial, scores)
        trial.subject.require_alike(evaluated, scores)


def _check_same(trial: NetworkTrial, scores: Tensor) -> None:
    _check_order(trial, scores)
    _check_masks(trial, scores)
    _check_alone(trial, scores)
    _check_empty(trial)
    _check_pieces(trial, scores)


def _check_empty(trial: NetworkTrial) -> None:
    q, n = trial.sides()
    scores = trial.score(q, blanked(n, 1))
    trial.subject.require(
        bool((scores[:, 1] == float("-inf")).all()),
        f"a video without a real frame must score -inf, got {scores[:, 1].tolist()}",
    )
    others = [place for place in range(len(n)) if place != 1]
    expected = trial.score(q, n[torch.tensor(others)])
    trial.subject.require_equal(expected, scores[:, others], "a video without a real frame changes other scores")


def _check_repeated(trial: NetworkTrial, scores: Tensor) -> None:
    torch.manual_seed(trial.seed + 1)
    trial.subject.require_equal(scores, trial.score(*trial.sides()), "is not deterministic in eval mode", 0.0)
    with torch.no_grad():
        q, n = (trial.network.index(side) for side in trial.sides())
        trial.network.similarity(q, n)
        again = trial.network.similarity(q, n)
    trial.subject.require_equal(scores, again, "changes the indexed videos in place", 0.0)


def _check_order(trial: NetworkTrial, scores: Tensor) -> None:
    generator, (q, n) = torch.Generator().manual_seed(2), trial.sides()
    rows, columns = (torch.randperm(size, generator=generator) for size in scores.shape)
    moved = trial.score(q[rows], n)[rows.argsort()]
    trial.subject.require_equal(scores, moved, "depends on the order of the queries")
    moved = trial.score(q, n[columns])[:, columns.argsort()]
    trial.subject.require_equal(scores, moved, "depends on the order of the database")


def _check_masks(trial: NetworkTrial, scores: Tensor) -> None:
    trial.subject.require_equal(scores, trial.score(*trial.sides(3)), "depends on padding (3 frames more)")
    spoilt = trial.score(*trial.sides(3, spoilt=True))
    trial.subject.require_equal(scores, spoilt, "ignores the mask: it looks at vectors that are masked")


def _check_alone(trial: NetworkTrial, scores: Tensor) -> None:
    (q, n), (rows, columns) = trial.sides(), (trial.subject.rows, trial.subject.columns)
    for i, video in enumerate(trial.videos):
        own = Subject(trial.subject.name, rows[i : i + 1], columns)
        alone = trial.score(Tokens.pack([video]), n)
        own.require_equal(scores[i : i + 1], alone, "depends on which other queries are in the batch")
    for j, video in enumerate(trial.database):
        own = Subject(trial.subject.name, rows, columns[j : j + 1])
        alone = trial.score(q, Tokens.pack([video]))
        own.require_equal(scores[:, j : j + 1], alone, "depends on which other videos are in the database")
    if trial.network.training:
        return  # padding has been tried, and 30 pairs take long
    bare = torch.cat([torch.cat([_pair(trial, i, j) for j in range(len(n))], dim=1) for i in range(len(q))])
    trial.subject.require_equal(scores, bare, "depends on padding: a pair alone scores differently")


def _pair(trial: NetworkTrial, i: int, j: int) -> Tensor:
    return trial.score(Tokens.pack([trial.videos[i]]), Tokens.pack([trial.database[j]]))


def _check_pieces(trial: NetworkTrial, scores: Tensor) -> None:
    with torch.no_grad():
        q, n = (trial.network.index(side) for side in trial.sides())
        pieces = torch.cat([trial.network.similarity(q, n[i : i + 4]) for i in range(0, len(n), 4)], dim=1)
        pairs = trial.network.pair_similarity(q, n[: len(q)])
    trial.subject.require_equal(scores, pieces, "depends on the chunks in which the database is scored")
    trial.subject.require_matrix(pairs, (len(q),), "what pair_similarity gives")
    expected = scores[:, : len(q)].diagonal()
    trial.subject.require_equal(expected, pairs, "pair_similarity differs from the diagonal of similarity")


def _check_weights(trial: NetworkTrial, scores: Tensor) -> None:
    q, n = trial.sides()
    equal = trial.score(replace(q, weight=torch.ones_like(q.x[:, :, 0, 0])), n)
    trial.subject.require_equal(scores, equal, "Tokens.weight of 1 changes scores")
    halves = torch.linspace(0.2, 1.0, q.mask.shape[1]).expand(q.mask.shape)
    trial.subject.require(
        not torch.allclose(scores, trial.score(replace(q, weight=halves), n), atol=1e-4),
        "ignores Tokens.weight: frames of weights 0.2 to 1 score as frames of weight 1",
    )


def _check_saved(trial: NetworkTrial, scores: Tensor) -> None:
    moved, trial.network = trial.network, trial.build(trial.seed + 1)
    with named_errors(trial.subject, "loading a state dict"):
        trial.network.load_state_dict(moved.state_dict(), strict=True)
    trial.subject.require_equal(scores, trial.score(*trial.sides()), "is not restored by its state dict", 1e-6)
    trial.network = moved
