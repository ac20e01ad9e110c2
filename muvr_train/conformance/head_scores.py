"""What must not change the scores of a fusion head."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from muvr_train.conformance.assertions import Subject, named_errors
from muvr_train.conformance.head_trial import HeadTrial
from muvr_train.conformance.world import SPOILT, pack_queries, padded_queries, spoil_absent, spoil_padded_queries


def check_scores(trial: HeadTrial) -> None:
    """What must not change a score."""
    scores = trial.score()
    trial.subject.require_matrix(scores, tuple(scores.shape), "the score")
    _check_repeated(trial, scores)
    _check_same(trial, scores)
    _check_saved(trial, scores)


def check_training_scores(trial: HeadTrial) -> None:
    """What must not change a score in train mode: otherwise several processes, or less memory, change a run."""
    evaluated = trial.score()
    with trial.training():
        torch.manual_seed(trial.seed)
        scores = trial.score()
        torch.manual_seed(trial.seed + 1)
        problem = "is random even without dropout (what is random must be an nn.Dropout, which is off here)"
        trial.subject.require_equal(scores, trial.score(), problem)
        _check_same(trial, scores)
        trial.subject.require_alike(evaluated, scores)


def _check_same(trial: HeadTrial, scores: Tensor) -> None:
    _check_order(trial, scores)
    _check_masks(trial, scores)
    _check_missing(trial, scores)
    _check_alone(trial, scores)
    _check_pieces(trial, scores)
    _check_blank(trial, scores)


def _check_repeated(trial: HeadTrial, scores: Tensor) -> None:
    torch.manual_seed(trial.seed + 1)
    trial.subject.require_equal(scores, trial.score(), "is not deterministic in eval mode", 0.0)
    q, n = trial.encoded()
    with torch.no_grad():
        first, second = trial.model.score(q, n), trial.model.score(q, n)
    trial.subject.require_equal(first, second, "changes the encoded query or database in place", 0.0)


def _check_order(trial: HeadTrial, scores: Tensor) -> None:
    generator = torch.Generator().manual_seed(2)
    rows, columns = (torch.randperm(size, generator=generator) for size in scores.shape)
    moved = trial.score(pack_queries([trial.world.items[i] for i in rows]))
    trial.subject.require_equal(scores, moved[rows.argsort()], "depends on the order of the queries")
    moved = trial.score(database=trial.world.database(columns.tolist()))
    trial.subject.require_equal(scores, moved[:, columns.argsort()], "depends on the order of the database")


def _check_masks(trial: HeadTrial, scores: Tensor) -> None:
    plain = pack_queries(trial.world.items)
    wide = padded_queries(plain, 3)
    padded = trial.score(wide, trial.world.database(padding=2))
    trial.subject.require_equal(scores, padded, "depends on padding (3 frames, words and tags more)")
    spoilt = trial.score(spoil_padded_queries(wide), trial.world.database(padding=2, spoilt=True))
    trial.subject.require_equal(scores, spoilt, "ignores a mask: it looks at vectors that are masked")


def _check_missing(trial: HeadTrial, scores: Tensor) -> None:
    plain = pack_queries(trial.world.items)
    renamed = trial.score(replace(plain, ids=tuple(f"x{place**3}" for place in range(len(plain)))))
    trial.subject.require_equal(scores, renamed, "depends on the ids of the queries")
    for size in SPOILT:
        spoilt, what = trial.score(spoil_absent(plain, size)), "NaN" if size != size else "vectors"
        trial.subject.require_equal(scores, spoilt, f"leaks a missing part: {what} in its place change the score")


def _check_alone(trial: HeadTrial, scores: Tensor) -> None:
    rows, columns, name = trial.subject.rows, trial.subject.columns, trial.subject.name
    lacking = [[part for part in ("video", "text") if getattr(item, part) is None] for item in trial.world.items]
    some = 3 if trial.model.training else None  # what evaluation has tried already is tried more briefly
    for i in sorted(range(len(rows))[:some], key=lambda place: len(lacking[place])):
        alone = trial.score(pack_queries([trial.world.items[i]]))
        problem = "depends on which other queries are in the batch"
        if lacking[i] and trial.dims.text_dim:
            problem = f"a missing {lacking[i][0]} has a vote where other queries have one"
        Subject(name, rows[i : i + 1], columns).require_equal(scores[i : i + 1], alone, problem)
    for j in range(len(columns))[:some]:
        alone = trial.score(database=trial.world.database([j]))
        own = Subject(name, rows, columns[j : j + 1])
        own.require_equal(scores[:, j : j + 1], alone, "depends on which other videos are in the database")
    if not trial.model.training:
        _check_bare(trial, scores)


def _check_bare(trial: HeadTrial, scores: Tensor) -> None:
    """One short query against one short video, without any padding."""
    for i, item in enumerate(trial.world.items):
        for j, video in enumerate(trial.world.videos):
            if len(video) <= 2 and (item.video is None or len(item.video) <= 2):
                bare = trial.score(pack_queries([item]), trial.world.database([j]))
                own = Subject(trial.subject.name, trial.subject.rows[i : i + 1], trial.subject.columns[j : j + 1])
                problem = "depends on padding: a pair alone scores differently"
                own.require_equal(scores[i : i + 1, j : j + 1], bare, problem)


def _check_pieces(trial: HeadTrial, scores: Tensor) -> None:
    q, n = trial.encoded()
    with torch.no_grad():
        pieces = torch.cat([trial.model.score(q, n[i : i + 4]) for i in range(0, len(n), 4)], dim=1)
        trial.subject.require_equal(scores, pieces, "depends on the chunks in which the database is scored")
        whole = trial.model.training_scores(q, n)[0]["fused"]
        trial.model.query_chunk = 3
        pieces = trial.model.training_scores(q, n)[0]["fused"]
        trial.model.query_chunk = None
    trial.subject.require_equal(whole, pieces, "depends on the chunks in which training scores queries")


def _check_blank(trial: HeadTrial, scores: Tensor) -> None:
    place = 1
    others = [other for other in range(scores.shape[1]) if other != place]
    blank = trial.score(database=trial.blank_database(place))
    alone = trial.score(database=trial.blank_database(0, [place]))
    bad = int((torch.isnan(blank[:, place]) | (blank[:, place] == float("inf"))).sum())
    trial.subject.require(bad == 0, f"a database video without a real frame scores NaN or inf ({bad} queries)")
    problem = "a database video without a real frame changes the scores of others"
    own = Subject(trial.subject.name, trial.subject.rows, [trial.subject.columns[other] for other in others])
    own.require_equal(scores[:, others], blank[:, others], problem)
    problem = "a database video without a real frame depends on which other videos are in the database"
    trial.subject.require_equal(blank[:, place : place + 1], alone, problem)


def _check_saved(trial: HeadTrial, scores: Tensor) -> None:
    moved, trial.model = trial.model, trial.build(trial.seed + 1)
    with named_errors(trial.subject, "loading a state dict"):
        trial.model.load_state_dict(moved.state_dict(), strict=True)
    trial.subject.require_equal(scores, trial.score(), "is not restored by its state dict", 1e-6)
    trial.model = moved
