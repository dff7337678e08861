"""Test that the same log is read through every kind of file system."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_kafkalog.fs import opening
from spark_kafkalog.fs.arrow import ArrowFiles
from spark_kafkalog.fs.hdfs import HdfsFile
from spark_kafkalog.fs.interface import FileSystem
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.offline import piece_reader
from tests.spark_kafkalog.offline.written import batch, offsets, write_segment


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for base in (0, 40):
        write_segment(tmp_path / "data" / "t-0", [batch(n, 4, size=50) for n in range(base, base + 40, 4)])
    (tmp_path / "data" / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    return tmp_path


@pytest.mark.parametrize("fs", [LocalFiles(), ArrowFiles("file://")])
def test_what_a_file_system_tells(fs: FileSystem, tree: Path) -> None:
    root = f"file://{tree}"
    log = next(path for path in sorted((tree / "data" / "t-0").iterdir()) if path.suffix == ".log")
    found = fs.entries(f"{root}/data/t-0")
    assert [each.name for each in found] == sorted(os.listdir(tree / "data" / "t-0"))
    entry = next(each for each in found if each.name == log.name)
    assert (entry.is_directory, entry.size) == (False, log.stat().st_size)
    assert entry.modified // 1000 == log.stat().st_mtime_ns // 1000
    directory = fs.stat(f"{root}/data/")
    assert directory is not None
    assert (directory.name, directory.is_directory) == ("data", True)
    assert fs.stat(f"{root}/nowhere") is None
    assert fs.stat(f"{root}/data/t-0/{log.name}/x") is None
    file = fs.open(entry.path)
    data = log.read_bytes()
    assert file.size == len(data)
    assert bytes(file.read(0, 10)) == data[:10]
    assert bytes(file.read(len(data) - 5, 100)) == data[-5:]
    assert bytes(file.read(len(data), 100)) == b""
    assert bytes(file.read(len(data) + 9, 100)) == b""
    file.close()
    with pytest.raises(FileNotFoundError):
        fs.open(f"{root}/nowhere")
    with pytest.raises(FileNotFoundError):
        fs.entries(f"{root}/nowhere")


@pytest.mark.parametrize("read_bytes", [1, 500, 4 << 20])
def test_reading_ahead_from_a_remote_file_system(tree: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int) -> None:
    monkeypatch.setattr(opening, "LOCAL", ArrowFiles("file://"))
    monkeypatch.setattr(piece_reader, "READ_BYTES", read_bytes)
    for path in (f"file://{tree}", f"file://{tree}/da*/t-0"):
        assert offsets(path, maxBytesPerPartition=300) == list(range(3, 80))
        assert offsets(path, **{"kafka.isolation.level": "read_committed"}) == list(range(3, 80))


def test_a_file_in_hdfs_is_read_by_two_threads(tmp_path: Path) -> None:
    """One reads ahead while the other looks at what is damaged: neither may move the other's position."""
    path = tmp_path / "x"
    path.write_bytes(bytes(range(256)) * 64)
    moved = threading.Barrier(2)

    class Slow(io.FileIO):
        def seek(self, *where: int) -> int:
            found = super().seek(*where)
            with contextlib.suppress(threading.BrokenBarrierError):
                moved.wait(0.05)
            return found

    with contextlib.closing(HdfsFile(Slow(path))) as file, ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            moved.reset()
            first, second = threads.map(lambda at: bytes(file.read(at, 4)), (1, 100))
            assert (first, second) == (b"\x01\x02\x03\x04", b"defg")


def test_a_scheme_that_nobody_serves() -> None:
    with pytest.raises(ValueError, match="no file system for ftp://host: "):
        opening.file_system("ftp://host/x")
