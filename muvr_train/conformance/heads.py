"""The check of fusion heads."""

from __future__ import annotations

from collections.abc import Sequence

from muvr_train.conformance.assertions import named_errors, one_thread, perturb
from muvr_train.conformance.head_scores import check_scores, check_training_scores
from muvr_train.conformance.head_training import check_gradients, check_reach
from muvr_train.conformance.head_trial import HeadFactory, HeadTrial, NetworkFactory
from muvr_train.errors import ConfigError
from muvr_train.models.fusion.base import FusionHead
from muvr_train.types import StoreDims

DIMS = (
    StoreDims(regions=1, dim=16, text_dim=16),
    StoreDims(regions=9, dim=16, text_dim=8),
    StoreDims(regions=1, dim=8, text_dim=24),
    StoreDims(regions=2, dim=16, text_dim=8, fine_regions=4, fine_dim=24),
    StoreDims(regions=1, dim=16),
)
"""One and nine regions; texts as large as frames, smaller, larger, with a grid of frames of their own, and none."""


@one_thread()
def check_fusion_head(
    head: FusionHead | HeadFactory,
    *,
    dims: Sequence[StoreDims] | None = None,
    network: NetworkFactory | None = None,
    starts_as_mean: bool = False,
    direction: bool = True,
    seed: int = 0,
) -> None:
    """Check that a fusion head keeps its promises, with random queries of all combinations of parts.

    Scores must be float32 [Q, N] and finite; equal to 1e-5 whatever else is in the batch, in any order, padding and
    pieces, also in train mode (with nn.Dropout off); there they go the same way; independent of masked vectors, of the
    values of absent parts, NaN included, of query ids, and of a blank database video; the same each time in eval mode;
    restored by a state dict.
    Gradients must be finite, also with a blank video, and from moved parameters on reach each of them (where the store
    has texts), the tokens of both sides, and the network and the text part where the head asks them.

    Args:
        head: a class or function that is called with `dims=StoreDims(...)`, or one head: then only its sizes are tried.
        dims: sizes of the feature stores to try; by default five, the last without texts, which a head may refuse with
            a ConfigError.
        network: called with `dim=`, `regions=` and, where the head has them, `extra_maps=`; by default Chamfer, or
            S2VS for heads with extra maps.
        starts_as_mean: also require that the head as built scores as the plain mean does (to 1e-6).
        direction: require that the head as built scores copies of the query videos above other videos (on Chamfer).
        seed: of weights and vectors.

    Raises:
        AssertionError: a promise is broken; the message says which, for which query and video, and shows the numbers.
    """
    if isinstance(head, FusionHead):
        dims = [head.dims]
    for size in DIMS if dims is None else dims:
        try:
            trial = HeadTrial(head, network, size, seed)
        except ConfigError:
            if size.text_dim is not None:
                raise
            continue
        with named_errors(trial.subject, "scoring queries"):
            trial.check_shapes()
            if starts_as_mean:
                trial.check_mean()
            if direction:
                trial.check_direction()
        with named_errors(trial.subject, "training"):
            check_gradients(trial, reach_all=False)
        perturb(trial.model, seed)
        with named_errors(trial.subject, "scoring queries with other weights"):
            check_scores(trial)
        with named_errors(trial.subject, "training with other weights"):
            check_gradients(trial, reach_all=size.text_dim is not None)
            check_reach(trial)
            check_training_scores(trial)
