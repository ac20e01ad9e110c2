"""Digests of files: of the content, read again only where it changed, also after a restart."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from muvr_train.errors import DataError
from muvr_train.rerank import digests
from muvr_train.rerank.digests import FILE, KEEP, Digests, digest_of


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def large(path: Path, first: bytes = b"a") -> Path:
    path.write_bytes(first + bytes(KEEP))
    return path


def change_unseen(path: Path) -> None:
    """Another content with the same size, time and inode: who gives the old digest has not read the file."""
    status = path.stat()
    with path.open("r+b") as file:
        file.write(b"#")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def test_another_start_does_not_read_the_file_again(tmp_path: Path) -> None:
    store, path = tmp_path / "new" / FILE, large(tmp_path / "größe.mp4")
    digest = Digests(store).of(path)
    assert digest == sha(path.read_bytes())
    change_unseen(path)
    assert Digests(store).of(path) == digest
    (tmp_path / "link.mp4").symlink_to(path)
    assert Digests(store).of(tmp_path / "link.mp4") == digest


def test_the_programs_of_a_user_share_them_below_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUVR_TRAIN_CACHE", str(tmp_path / "cache"))
    path = large(tmp_path / "a.mp4")
    digest = digest_of(path)
    change_unseen(path)
    code = "import sys, pathlib, muvr_train.rerank.digests as all; print(all.digest_of(pathlib.Path(sys.argv[1])))"
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == digest


@pytest.mark.parametrize("how", ["content", "time", "size", "another file"])
def test_a_changed_file_is_read_again(tmp_path: Path, how: str) -> None:
    store, path = tmp_path / FILE, large(tmp_path / "a.mp4")
    one, status = Digests(store), path.stat()
    one.of(path)
    if how == "time":
        os.utime(path, ns=(0, status.st_mtime_ns - 1))
        with path.open("r+b") as file:
            file.write(b"b")
        os.utime(path, ns=(0, status.st_mtime_ns - 1))
    elif how == "another file":
        other = large(tmp_path / "b.mp4", b"b")
        os.utime(other, ns=(0, status.st_mtime_ns))
        other.replace(path)
    else:
        large(path, b"b" if how == "content" else b"bb")
    for each in (one, Digests(store)):
        assert each.of(path) == sha(path.read_bytes())


@pytest.mark.parametrize("content", [b"", b"\0" * 99, b"{}\n[1, 2]\nnull\n[[]]\n\xff\n", b"[" * 99_999 + b"\n"])
def test_a_broken_file_of_digests_costs_nothing_but_time(tmp_path: Path, content: bytes) -> None:
    store, path = tmp_path / FILE, large(tmp_path / "a.mp4")
    store.write_bytes(content)
    digest = Digests(store).of(path)
    assert digest == sha(path.read_bytes())
    change_unseen(path)
    assert Digests(store).of(path) == digest


def test_a_line_that_was_cut_is_passed_over_and_spoils_no_other(tmp_path: Path) -> None:
    store, a, b = tmp_path / FILE, large(tmp_path / "a.mp4"), large(tmp_path / "b.mp4", b"b")
    Digests(store).of(a)
    store.write_bytes(store.read_bytes()[:-9])
    found = [Digests(store).of(path) for path in (b, a)]
    change_unseen(b)
    assert [Digests(store).of(path) for path in (b, a)] == found == [sha(b"b" + bytes(KEEP)), sha(b"a" + bytes(KEEP))]


def test_what_another_process_learned_meanwhile_is_used(tmp_path: Path) -> None:
    store, path = tmp_path / FILE, large(tmp_path / "a.mp4")
    first, second = Digests(store), Digests(store)
    first.of(large(tmp_path / "b.mp4"))
    digest = second.of(path)
    change_unseen(path)
    assert first.of(path) == digest


def test_many_threads_keep_all_of_them_and_read_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [large(tmp_path / f"{number}.mp4", b"%d" % number) for number in range(12)]
    store, read, real = Digests(tmp_path / FILE), list[Path](), digests._read

    def counted(path: Path, known: digests._Known) -> tuple[str, bool]:
        read.append(path)
        return real(path, known)

    monkeypatch.setattr(digests, "_read", counted)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(store.of, [path for path in paths for _ in range(6)]))
    assert found == [sha(path.read_bytes()) for path in paths for _ in range(6)]
    assert sorted(read) == sorted(paths)
    assert sum(bool(line.strip()) for line in store.path.read_text().splitlines()) == len(paths)


def test_processes_write_whole_lines(tmp_path: Path) -> None:
    paths = [large(tmp_path / f"{number}.mp4", b"%d" % number) for number in range(20)]
    code = (
        "import sys, pathlib, muvr_train.rerank.digests as all; store = all.Digests(pathlib.Path(sys.argv[1]));"
        "[store.of(pathlib.Path(path)) for path in sys.argv[2:]]"
    )
    command = [sys.executable, "-c", code, str(tmp_path / FILE), *map(str, paths)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines() if line]
    assert {line[0]: line[4] for line in lines} == {str(path): sha(path.read_bytes()) for path in paths}


def test_without_a_place_to_write_they_are_kept_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "taken").write_text("a file, no folder")
    store, path = Digests(tmp_path / "taken" / FILE), large(tmp_path / "a.mp4")
    digest = store.of(path)
    store.of(large(tmp_path / "b.mp4"))
    change_unseen(path)
    assert store.of(path) == digest
    assert len(caplog.records) == 1
    assert "not kept for the next start" in caplog.text


def test_small_files_are_not_written_down(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    path.write_bytes(b"small")
    assert Digests(tmp_path / FILE).of(path) == sha(b"small")
    assert not (tmp_path / FILE).exists()


def test_a_file_that_grows_while_it_is_read_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = Digests(tmp_path / FILE), large(tmp_path / "a.mp4")

    class Growing:
        def __init__(self) -> None:
            self.real = hashlib.sha256()
            self.hexdigest = self.real.hexdigest

        def update(self, block: bytes) -> None:
            self.real.update(block)
            with path.open("ab") as file:
                file.write(b"x" if path.stat().st_size == KEEP + 1 else b"")

    with monkeypatch.context() as patch:
        patch.setattr(digests, "hashlib", SimpleNamespace(sha256=Growing))
        store.of(path)
    assert not store.path.exists()
    assert store.of(path) == sha(path.read_bytes())


def test_reading_large_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(digests, "TOLD", 2**20)
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(3 * 2**20))
    with caplog.at_level("INFO"):
        Digests(tmp_path / FILE).of(path)
        Digests(tmp_path / FILE).of(path)
    assert [record.message.split(": ", 1)[1] for record in caplog.records] == [
        "its 0.0 GB are read to know its content; the digest is kept", *(f"{done} of 0.0 GB" for done in ("0.0",) * 3),
    ]  # fmt: skip


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.mp4: cannot be read \(No such file"):
        digest_of(tmp_path / "gone.mp4")
