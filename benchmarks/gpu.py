"""Everything that matters on one GPU, in less than five minutes; all data are generated there.

Run: python benchmarks/gpu.py                         needs CUDA; writes outputs/gpu/gpu.json and gpu.txt
     python benchmarks/gpu.py --device cpu --quick    every line of it at tiny sizes, to try it without a GPU

First the device must give what the CPU gives (scores to 1e-4, gradients to 1e-3), else the rest means nothing. TF32 is
off but where a row says so. MFU, model FLOP utilisation, is the work that the maths needs over what the GPU's own
matrix product does in the same precision and time. What --limit leaves no time for is left out, and the output says so.
"""

from __future__ import annotations

import torch
from gpu_scoring import evaluation, loading
from gpu_session import Row, Session, free, largest, read_session, tf32
from measure import gemm, gemm_rate, machine, watch_peak
from step import Sizes, differences, gradients, make_batch, make_module, our_loss, plain_loss

from muvr_train.models.base import SimilarityNetwork
from muvr_train.models.frame_max import FrameMax
from muvr_train.models.s2vs import S2VS
from muvr_train.types import Tokens

PRECISIONS = {"fp32": "fp32", "tf32": "tf32", "bf16-mixed": "bf16"}
"""Of a step, and of the product that it is compared with."""
SCORES, GRADIENTS = 1e-4, 1e-3
"""Most that CUDA may differ from the CPU."""


def main() -> None:
    """All parts, one after the other."""
    session, out = read_session(__doc__)
    with tf32(False):
        session.say(machine(torch.get_num_threads(), session.device))
        products(session)
        against_cpu(session)
        for part in (steps, compiled, evaluation, loading, batches):
            part(session)
            free(session.device)
    session.say(f"\n{session.limit - session.left():.0f} s in all")
    session.write(out)


def products(session: Session) -> None:
    """The device's own rates."""
    clock, size = session.clock(), 512 if session.quick else None
    for name, dtype in (("fp32", torch.float32), ("tf32", torch.float32), ("bf16", torch.bfloat16)):
        with tf32(name == "tf32"):
            gemm(clock, dtype, name, size)
        session.rates[name] = gemm_rate(clock, name)
    rows: list[Row] = [{"torch.matmul": name, "TFLOP/s": rate / 1e12} for name, rate in session.rates.items()]
    session.show("The device's own square matrix product", rows)


def against_cpu(session: Session) -> None:
    """Scores of ragged videos and gradients of a step, on the device and on the CPU."""
    rows: list[Row] = []
    for name, network in (("frame_max", FrameMax(128, 9)), ("S2VS", S2VS(128, 9))):
        rows.append(
            {
                "": f"scores of {name}, largest difference",
                "fp32": _score_difference(network, session.device, False),
                "tf32": _score_difference(network, session.device, True),
            }
        )
    sizes, found = Sizes(8, 16, 9, 128), dict[str, float]()
    expected = gradients(module := make_module(sizes), our_loss(module, make_batch(sizes)))
    for name in ("fp32", "tf32"):
        with tf32(name == "tf32"):
            module, batch = make_module(sizes).to(session.device), make_batch(sizes).to(session.device)
            found[name] = differences(gradients(module, our_loss(module, batch)), expected)[0]
    rows.append({"": "gradients of a step, relative", **found})
    session.show(f"{session.device.type} against the CPU", rows)
    if not (all(float(row["fp32"] or 0) <= SCORES for row in rows[:2]) and found["fp32"] <= GRADIENTS):
        raise SystemExit("the device does not give what the CPU gives: nothing else is timed")


def _score_difference(network: SimilarityNetwork, device: torch.device, rounded: bool) -> float:
    generator = torch.Generator().manual_seed(0)
    videos = Tokens.pack([torch.randn(length, 9, 128, generator=generator) for length in (3, 15, 15, 32, 7, 20)])
    with torch.inference_mode(), tf32(rounded):
        expected, found = (
            (moved := network.to(where).eval()).similarity(moved.index(videos.to(where)), moved.index(videos.to(where)))
            for where in ("cpu", device)
        )
        return float((expected - found.cpu()).abs().max())


def time_step(
    session: Session, sizes: Sizes, precision: str, plain: bool = False, compile_head: bool = False, rounds: int = 3
) -> tuple[float, int]:
    """Median seconds of a step after one that warms up, and its memory beyond features and weights."""
    device = session.device
    module, batch = make_module(sizes, compile=compile_head).to(device), make_batch(sizes, device)
    loss, clock = plain_loss if plain else our_loss, session.clock()

    def step() -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16-mixed"):
            value = loss(module, batch)
        gradients(module, value)

    with tf32(precision == "tf32"):
        _, memory, _ = watch_peak(lambda: clock.time("first", step), device)
        for _ in range(rounds):
            clock.time("step", step)
    return clock.median("step" if rounds else "first"), memory


def steps(session: Session) -> None:
    """Time and memory of a step at growing batches, in three precisions."""
    rows: list[Row] = []
    for precision, product in PRECISIONS.items():
        seconds = 0.0
        for videos in (4, 8) if session.quick else (64, 128, 256, 512):
            sizes = _batch(session, videos)
            if 16 * seconds > session.left() / 2:  # four steps, each four times as long
                session.say(f"left out for want of time: {precision}, {videos} videos and more")
                break
            try:
                seconds, memory = time_step(session, sizes, precision)
            except torch.cuda.OutOfMemoryError:
                session.say(f"out of memory: {precision}, {videos} videos")
                break
            rows.append(
                {
                    "precision": precision,
                    "videos": videos,
                    "seconds": seconds,
                    "pairs/s": videos**2 / seconds,
                    "memory, GiB": memory / 2**30,
                    "TFLOP": sizes.work.step / 1e12,
                    "MFU, %": 100 * sizes.work.step / seconds / session.rates[product],
                }
            )
        free(session.device)
    session.show(f"A training step of S2VS, all pairs of videos of {_batch(session, 0).of_a_video}", rows)


def compiled(session: Session) -> None:
    """The same step with the CNN compiled."""
    rows: list[Row] = []
    sizes = _batch(session, 4 if session.quick else 128)
    for precision in ("fp32", "bf16-mixed"):
        if session.left() > 60:
            plain, _ = time_step(session, sizes, precision)
            seconds, memory = time_step(session, sizes, precision, compile_head=True)
            rows.append(
                {
                    "precision": precision,
                    "videos": sizes.videos,
                    "eager, s": plain,
                    "compiled, s": seconds,
                    "speed": plain / seconds,
                    "memory, GiB": memory / 2**30,
                }
            )
        free(session.device)
    session.show("The same step with torch.compile", rows)


def batches(session: Session) -> None:
    """The largest batch whose step fits, by doubling, plain and in bounded memory."""
    rows: list[Row] = []
    start, most = (4, 8) if session.quick else (64, 8192)
    for name, plain in (("plain formulation", True), ("muvr_train", False)):
        for precision in ("fp32", "bf16-mixed"):
            if session.left() < 10:
                continue

            def attempt(videos: int, plain: bool = plain, precision: str = precision) -> float:
                free(session.device)
                return time_step(session, _batch(session, videos), precision, plain=plain, rounds=0)[0]

            videos, seconds, why = largest(attempt, start, most, min(20.0, session.left() / 2))
            free(session.device)
            rows.append({"": name, "precision": precision, "videos": videos, "seconds": seconds, "then": why})
    session.show("The largest batch that fits, by doubling", rows)


def _batch(session: Session, videos: int) -> Sizes:
    return Sizes(videos, 8, 9, 64) if session.quick else Sizes(videos)


if __name__ == "__main__":
    main()
