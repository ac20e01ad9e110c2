"""Tag expressions as signed conditions with the vectors of their tags."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the name everybody knows)

from muvr_train.benchmarks.expressions import Expression, Or, conditions_of
from muvr_train.errors import DataError, shorten
from muvr_train.features.store import FeatureStore, tag_key
from muvr_train.types import Tags


def load_tags(store: FeatureStore, queries: Sequence[str], expressions: Sequence[Expression | None]) -> Tags | None:
    """Load the conditions of queries; None where no query has any.

    Args:
        store: holds a vector for each tag of each query, in the stream "tags". Of several tokens the mean counts.
        queries: [Q] ids; one may stand several times.
        expressions: [Q], None for a query without conditions.

    Returns:
        Conditions [Q, K] in the order in which they were written, with L2-normalised vectors.

    Raises:
        DataError: a tag has no vector (all are named).
    """
    asked = [() if expression is None else conditions_of(expression) for expression in expressions]
    most = max(map(len, asked), default=0)
    if not most:
        return None
    places = torch.tensor([row * most + k for row, found in enumerate(asked) for k in range(len(found))])
    x = tag_vectors(store, [(query, c.tag) for query, found in zip(queries, asked, strict=True) for c in found])
    sign = torch.tensor([[*(c.sign for c in found), *[0] * (most - len(found))] for found in asked], dtype=x.dtype)
    either = torch.tensor([isinstance(expression, Or) for expression in expressions])[:, None].expand(-1, most)
    padded = x.new_zeros((len(asked) * most, x.shape[1])).index_copy_(0, places.to(x.device), x)
    sign, either = sign.to(x.device), either.contiguous().to(x.device)
    return Tags(padded.view(len(asked), most, -1), sign != 0, sign, either)


def tag_vectors(store: FeatureStore, pairs: Sequence[tuple[str, str]]) -> Tensor:
    """One unit vector for each query and tag, the mean of its tokens: float32 [P, D_text].

    Raises:
        DataError: a tag has no vector (all are named).
    """
    keys = [tag_key(*pair) for pair in pairs]
    missing = dict.fromkeys(
        f"{query} '{tag}'" for (query, tag), key in zip(pairs, keys, strict=True) if not store.has(key, "tags")
    )
    if missing:
        raise DataError(
            f"{store.path}: {len(missing)} tags of queries have no vector: {shorten(list(missing), 50)}. Extract or "
            "import them, or leave out their tag expressions"
        )
    tokens = store.tokens(keys, "tags")
    total = (tokens.x[:, :, 0] * tokens.mask[:, :, None]).sum(dim=1)
    return F.normalize(total, dim=-1)
