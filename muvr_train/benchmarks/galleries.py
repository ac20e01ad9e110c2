"""Fingerprints of galleries, by which two results files show that they ranked the same database videos."""

from __future__ import annotations

import hashlib

from muvr_train.benchmarks.types import Benchmark


def gallery_digests(benchmark: Benchmark) -> dict[str, str]:
    """A short hash of the database ids of every partition; their order does not matter."""
    return {
        partition.name: hashlib.blake2b("\n".join(sorted(partition.database)).encode(), digest_size=8).hexdigest()
        for partition in benchmark.partitions
    }
