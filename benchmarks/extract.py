"""Extraction against the plain way (cv2: decode everything, keep every stride-th frame), in one run.

Run: pip install -e ".[bench,demo]"
     python benchmarks/extract.py               decoding per core, all cores, the whole extraction, 2 hours of video
     python benchmarks/extract.py --quick       less of everything
     python benchmarks/extract.py --only long   whether 2 hours of video stay below 1 GB; exit code 1 if not

The videos are made on the spot in a temporary folder: 2 minutes, 596 x 336, H.264, at 6 and at 25 frames per second.
Decoding per core is timed in processor seconds, which other work disturbs less; everything else by the clock.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from process_watch import ProcessWatch
from synthetic_videos import repeat_video, write_video

from muvr_train.features.decode import BACKENDS, stream_frames
from muvr_train.features.events import Done
from muvr_train.features.jobs import PlainJob
from muvr_train.features.pool import DecodePool
from muvr_train.features.probe import probe_video
from muvr_train.features.read_decord import watch_errors
from muvr_train.features.read_groups import needed_packets
from muvr_train.features.sampling import FrameSampler, uniform

if TYPE_CHECKING:  # decoder processes import this script, as they do the command; it must stay as light
    from muvr_train.features.encoders.efficientnet_lite0 import EfficientNetLite0
    from muvr_train.features.extract import ExtractReport

FRAMES = 15
SHOTS = {"cuts every 4 s on average": 4.0, "one shot, a key frame every 250 frames": None}
RATES = (6, 25)
CORES = len(os.sched_getaffinity(0))
LONG_SECONDS = 7200
BOUND = 10**9  # bytes that an extraction may need beyond the model
MOST_DIFFERENT = 1.0  # grey levels, mean over all pixels
PARTS = ("decode", "workers", "extract", "long")
Decode = Callable[[Path], NDArray[np.uint8]]
Videos = dict[tuple[int, str], list[Path]]


def main() -> int:
    """Make the videos, time everything, print it; gives the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one video of each rate, one round, no long ones")
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--rounds", type=int, default=5, help="of decoding")
    parser.add_argument("--files", type=int, default=2, help="different videos of each kind")
    parser.add_argument("--videos", type=int, default=48, help="of the whole extraction")
    args = parser.parse_args()
    kinds, parts = list(SHOTS), [args.only] if args.only else list(PARTS)
    if args.quick:
        args.rounds, args.files, args.videos = 1, 1, 24
        kinds, parts = kinds[:1], parts if args.only else ["decode", "workers", "extract"]
    if "decode" in parts:
        _cv2()
    with tempfile.TemporaryDirectory(dir=os.environ.get("MUVR_TRAIN_CACHE")) as folder:
        if parts != ["long"]:
            measure(Path(folder), make_videos(Path(folder), kinds, args.files), parts, args)
        return 0 if "long" not in parts or within_bound(Path(folder)) else 1


def measure(root: Path, videos: Videos, parts: Sequence[str], args: argparse.Namespace) -> None:
    """What is asked for of the 2-minute videos."""
    if "decode" in parts:
        for (rate, kind), paths in videos.items():
            compare(f"{rate} fps, {kind}", paths, args.rounds)
    for rate in RATES:
        paths = videos[rate, next(iter(SHOTS))]
        if "workers" in parts:
            scale(f"{rate} fps", paths, args.rounds)
        if "extract" in parts:
            whole(root, f"{rate} fps", paths, args.videos)


def make_videos(root: Path, kinds: Sequence[str], files: int) -> Videos:
    """2-minute videos by frames per second and kind."""
    made: Videos = {}
    for rate in RATES:
        for number, kind in enumerate(kinds):
            paths = [root / f"{rate}_{number}_{seed}.mp4" for seed in range(files)]
            for seed, path in enumerate(paths):
                write_video(path, rate, 120, SHOTS[kind], seed)
            made[rate, kind] = paths
    return made


def compare(label: str, paths: Sequence[Path], rounds: int) -> None:
    """Decoding alone on one core: the plain way and ours in turns; stops unless all give the same pictures."""
    ways: dict[str, Decode] = {
        "cv2, read() of every frame": _plain,
        "cv2, grab() of every frame, retrieve() of the chosen": lambda path: _plain(path, convert_all=False),
        "ours": _ours,
        **{f"    by {name} alone": lambda path, name=name: _ours(path, (name,)) for name in BACKENDS},  # type: ignore[misc]
    }
    watch_errors()  # as decoder processes do
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for path in paths:
        pictures = dict[str, NDArray[np.uint8]]()
        for _ in range(rounds):
            for name, decode in ways.items():
                begin = time.process_time()
                pictures[name] = decode(path)
                seconds[name].append(time.process_time() - begin)
        _check_same(path, *pictures.values())
    base = median(seconds[next(iter(ways))])
    probe, size = probe_video(paths[0], lambda: None), 8 * paths[0].stat().st_size / 120_000
    about = f"{label}; {probe.keys.sum()} key frames, {size:.0f} kbit/s"
    print(f"\ndecoding {FRAMES} of {len(probe.keys)} frames ({about}), per core")
    shares = [f"{_needed(path):.0%}" for path in paths]
    print(f"    from the key frames before the chosen frames up to them lie {', '.join(shares)} of all frames")
    for name, values in seconds.items():
        print(f"    {name:54}{1 / median(values):6.2f} videos/s  {base / median(values):5.2f}x", flush=True)


def _needed(path: Path) -> float:
    """Share of the frames among which all those lie that must be decoded for the chosen ones."""
    probe = probe_video(path, lambda: None)
    chosen = np.isin(probe.times, probe.shown[FrameSampler(FRAMES).select(probe.shown)])
    return float(needed_packets(probe.times, probe.keys, chosen).mean())


def _plain(path: Path, convert_all: bool = True) -> NDArray[np.uint8]:
    cv2 = _cv2()
    reader = cv2.VideoCapture(str(path), cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    count = int(reader.get(cv2.CAP_PROP_FRAME_COUNT))
    chosen, pictures = set(uniform(count, FRAMES)), list[Any]()
    for index in range(count):
        good, picture = reader.read() if convert_all else (reader.grab(), None)
        if not good:
            raise SystemExit(f"{path}: cv2 does not decode frame {index}")
        if index in chosen:
            pictures.append(picture if convert_all else reader.retrieve()[1])
    return np.stack(pictures)[..., ::-1]


def _ours(path: Path, backends: Sequence[str] = BACKENDS) -> NDArray[np.uint8]:
    pictures: list[NDArray[np.uint8]] = []
    stream_frames(path, FrameSampler(FRAMES), pictures.append, pictures.clear, backends=backends)
    return np.concatenate(pictures)


def _check_same(path: Path, first: NDArray[np.uint8], *others: NDArray[np.uint8]) -> None:
    for other in others:
        if first.shape != other.shape or np.abs(first.astype(int) - other).mean() > MOST_DIFFERENT:
            raise SystemExit(f"{path}: the pictures differ, so the times mean nothing")


def scale(label: str, paths: Sequence[Path], rounds: int) -> None:
    """Decoder processes: one against one per core, in turns."""
    videos = [(str(number), paths[number % len(paths)]) for number in range(12 * CORES)]
    jobs, encoder = [PlainJob(*video, FrameSampler(FRAMES)) for video in videos], _encoder()
    rates: dict[int, list[float]] = {1: [], CORES: []}
    shares: dict[int, list[float]] = {1: [], CORES: []}
    for _ in range(rounds if rounds < 3 else 3):
        for workers in rates:
            begin = None
            with ProcessWatch() as watch:
                for event in DecodePool(jobs, encoder.preprocess, workers):
                    if begin is None:  # the start of the processes is not decoding
                        begin, used = time.perf_counter(), watch.seconds
                    if isinstance(event, Done) and event.status.failed:
                        raise SystemExit(f"{event.status}")
                seconds = time.perf_counter() - (begin or 0)
            rates[workers].append(len(jobs) / seconds)
            shares[workers].append((watch.seconds - used) / seconds)
    print(f"\ndecoding and resizing in processes ({label}), {len(jobs)} videos")
    for workers, values in rates.items():
        name = f"{workers} process" + ("es" if workers > 1 else "")
        print(f"    {name:54}{median(values):6.2f} videos/s  {median(values) / median(rates[1]):5.2f}x, ", end="")
        print(f"{median(shares[workers]):.2f} cores at work", flush=True)


def whole(root: Path, label: str, paths: Sequence[Path], count: int) -> None:
    """The whole extraction with EfficientNet-Lite0 on the processor."""
    videos = [(str(number), paths[number % len(paths)]) for number in range(count)]
    report, watch = _extract(videos, root / f"store {label}", FrameSampler(FRAMES))
    print(f"\nextraction, EfficientNet-Lite0 on {CORES} cores ({label}), {count} videos x {FRAMES} frames")
    print(f"    {count / report.seconds:.2f} videos/s, encoder busy {100 * (report.busy or 0):.0f} %")
    print(f"    {_memory(watch)}", flush=True)


def within_bound(root: Path) -> bool:
    """Extract from 2 hours of video and tell whether memory stays below the bound."""
    source, dense, sparse = (root / name for name in ("source.mp4", "long.mp4", "slow.mp4"))
    write_video(source, 25, 120, 4.0, size=(108, 192))
    repeat_video(source, dense, LONG_SECONDS // 120)
    write_video(source, 2, 120, 4.0, size=(108, 192))
    repeat_video(source, sparse, LONG_SECONDS // 120)
    print("\n2 hours of video, 192 x 108")
    peaks = []
    for label, path, sampler in (
        ("25 fps, 15 frames", dense, FrameSampler(FRAMES)),
        ("2 fps, a frame every 3 s", sparse, FrameSampler(fps=1 / 3)),
    ):
        report, watch = _extract([(label, path)], root / f"store {label}", sampler)
        used = report.statuses[0].used
        if used != (sampler.frames or LONG_SECONDS // 3):
            raise SystemExit(f"{path}: {used} frames were used: {report.statuses[0]}")
        print(f"    {label:30}{report.seconds:6.1f} s, {used} frames used; {_memory(watch)}", flush=True)
        peaks.append(watch.own + watch.others)
    print(f"    at most {max(peaks) / 1e6:.0f} MB beyond the model, allowed are {BOUND / 1e6:.0f}")
    return max(peaks) < BOUND


def _extract(videos: list[tuple[str, Path]], out: Path, sampler: FrameSampler) -> tuple[ExtractReport, ProcessWatch]:
    from muvr_train.features.extract import ExtractSettings
    from muvr_train.training.extraction import extract_folder

    encoder = _encoder()
    encoder.encode([np.zeros((encoder.batch_size, 8, 8, 3), np.uint8)])  # the model's own memory, activations included
    with ProcessWatch() as watch:
        report = extract_folder(videos, encoder, out, sampler, ExtractSettings(progress=False))
    if report is None or report.failures:
        raise SystemExit(f"the extraction failed: {report}")
    return report, watch


def _encoder() -> EfficientNetLite0:
    from muvr_train.features.encoders.efficientnet_lite0 import EfficientNetLite0

    return EfficientNetLite0()


def _memory(watch: ProcessWatch) -> str:
    return (
        f"memory: this process +{watch.own / 1e6:.0f} MB, the decoders {watch.others / 1e6:.0f} MB together "
        f"(the largest {watch.largest / 1e6:.0f} MB with what it shares)"
    )


def _cv2() -> Any:
    try:
        import cv2
    except ImportError:
        raise SystemExit('the plain way needs OpenCV, which is not installed: pip install -e ".[bench]"') from None
    cv2.setNumThreads(1)
    return cv2


if __name__ == "__main__":
    sys.exit(main())
