"""The parts of gpu.py that score: all of MUVR-Base, and reading batches from a resident store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from gpu_session import Row, Session, free
from measure import watch_peak
from s2vs_work import S2VSWork

from muvr_train.features.manifest import make_manifest
from muvr_train.features.store import FeatureStore
from muvr_train.features.writer import StoreWriter
from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.fusion.mean import MeanFusion
from muvr_train.models.retriever import Retriever
from muvr_train.models.s2vs import S2VS
from muvr_train.search.exhaustive import (
    QUERY_COPIES,
    Demand,
    Places,
    block_bytes,
    evaluating,
    plan_blocks,
    query_scorer,
    score_blocks,
)
from muvr_train.types import EncodedDatabase, QueryBatch, StoreDims, Tokens

FRAMES, DIM = 15, 1024
QUERIES, DATABASE = 1050, 53_462
READ_VIDEOS, READ_BATCH = 5000, 64


def evaluation(session: Session) -> None:
    """Scores of 1,050 queries x 53,462 videos, in one matrix, with features that are on the device already.

    Where S2VS would take longer than half of what is left, fewer queries are scored and the seconds scaled.
    """
    queries, database = (20, 300) if session.quick else (QUERIES, DATABASE)
    features = torch.randn(database, FRAMES, 1, DIM, device=session.device, dtype=torch.float16)
    rows: list[Row] = []
    for name, network in (("frame_max", FrameMax(DIM)), ("S2VS", S2VS(DIM))):
        some = max(1, queries // 50)
        _score(session, network, features, some)  # warms up
        trial, _ = _score(session, network, features, some)
        asked = queries if trial * queries / some < session.left() / 2 else some
        seconds, memory = _score(session, network, features, asked)
        seconds *= queries / asked
        work = S2VSWork(queries, database, FRAMES, 1, DIM)
        flops = work.forward if name == "S2VS" else work.products
        rows.append(
            {
                "": name,
                "seconds": seconds,
                "TFLOP": flops / 1e12,
                "of the GPU's fp32 product, %": 100 * flops / seconds / session.rates["fp32"],
                "memory, GiB": memory / 2**30,
                "queries timed": asked,
            }
        )
        free(session.device)
    session.show(f"Scores of {queries:,} queries x {database:,} videos x {FRAMES} x {DIM:,}, fp32", rows)


def _score(session: Session, network: SimilarityNetwork, features: torch.Tensor, queries: int) -> tuple[float, int]:
    """Seconds and memory of scoring the first videos of the database as queries, as `ModelScores` does it."""
    device, dims = session.device, StoreDims(1, DIM)
    model = Retriever(network, MeanFusion(dims), dims).to(device)
    present = torch.ones(queries, dtype=torch.bool, device=device)
    video = Tokens(features[:queries].float(), present[:, None].expand(-1, FRAMES))
    batch = QueryBatch(tuple(map(str, range(queries))), video, None, {"video": present, "text": ~present})
    sizes = np.full(len(features), 4 * FRAMES * DIM)

    def blocks() -> Iterator[tuple[Places, EncodedDatabase]]:
        limit = block_bytes(device, None, Demand(QUERY_COPIES * video.x.nbytes, int(sizes[0])))
        for places in plan_blocks(sizes, limit):
            x = features[torch.from_numpy(places).to(device)].float()
            yield places, model.encode_database(Tokens(x, torch.ones(x.shape[:2], dtype=torch.bool, device=device)))

    def work() -> None:
        with evaluating(model):
            score_blocks([query_scorer(model, batch, ["v"])], blocks(), len(features))

    clock = session.clock()
    _, memory, _ = watch_peak(lambda: clock.time("scores", work), device)
    return clock.median("scores"), memory


def loading(session: Session) -> None:
    """Batches of 64 videos in random order, float32 on the device, from the three residencies of a store."""
    videos = 200 if session.quick else READ_VIDEOS
    rng, rows = np.random.default_rng(0), list[Row]()
    with tempfile.TemporaryDirectory() as folder:
        with StoreWriter(Path(folder) / "store", make_manifest("timing")) as writer:
            for video in range(videos):
                writer.add(str(video), rng.standard_normal((FRAMES, 1, DIM), np.float32).astype(np.float16))
        order = [str(video) for video in rng.permutation(videos)]
        batches = [order[start : start + READ_BATCH] for start in range(0, videos, READ_BATCH)]
        for residency in ("mmap", "ram", "gpu"):
            store, clock = FeatureStore(Path(folder) / "store", residency, str(session.device)), session.clock()
            for _ in range(3):
                clock.time("pass", _reader(store, batches, session.device))
            seconds = min(clock.seconds["pass"])
            rows.append(
                {"residency": residency, "videos/s": videos / seconds, "ms a batch": 1e3 * seconds / len(batches)}
            )
    session.show(f"Loading {READ_BATCH} of {videos:,} videos x {FRAMES} x {DIM:,} fp16, as float32 on the device", rows)


def _reader(store: FeatureStore, batches: list[list[str]], device: torch.device) -> Callable[[], None]:
    def read() -> None:
        for batch in batches:
            store.tokens(batch).to(device)

    return read
