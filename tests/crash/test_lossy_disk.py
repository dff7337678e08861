"""Tests of the lossy disk: what it must keep, what it may lose, and what it may never invent."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.log.files.file_ops import write_file_atomically
from tests.crash.lossy_disk import Disk, Entry, RecordingOps, read_record, write_record


def nothing(count: int) -> int:
    return 0


def everything(count: int) -> int:
    return count - 1


class Place:
    def __init__(self, root: Path) -> None:
        self.root = root / "root"
        self.root.mkdir()
        self.entries: list[Entry] = []
        self.ops = RecordingOps(self.entries.append)
        self.images = root

    def image(self, content: Callable[[int], int], names: Callable[[int], int] | None = None) -> dict[str, bytes]:
        disk = Disk(str(self.root))
        disk.play(self.entries)
        target = self.images / f"image{len(list(self.images.iterdir()))}"
        disk.image(target, content, names)
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def write(self, name: str, data: bytes, at: int = 0) -> int:
        fd = self.ops.open(str(self.root / name), os.O_RDWR | os.O_CREAT)
        self.ops.pwrite(fd, data, at)
        return fd


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_content_is_safe_after_an_fsync_and_a_name_after_that_of_its_directory(place: Place) -> None:
    fd = place.write("a", b"one")
    assert place.image(nothing) == {}
    assert place.image(everything) == {"a": b"one"}
    place.ops.fsync(fd)
    assert place.image(nothing) == {}
    assert place.image(nothing, everything) == {"a": b"one"}
    place.ops.fsync_dir(str(place.root))
    place.ops.pwrite(fd, b"two", 3)
    assert place.image(nothing) == {"a": b"one"}
    place.ops.ftruncate(fd, 1)
    assert place.image(everything) == {"a": b"o"}
    os.close(fd)


def test_an_unsynced_write_may_be_torn_at_sectors(place: Place) -> None:
    os.close(place.write("a", b"x" * 2000))
    found = {place.image(random.Random(seed).randrange, everything)["a"] for seed in range(80)}
    assert {b"", b"x" * 512, b"x" * 2000, bytes(1024) + b"x" * 976} <= found
    for content in found:
        assert content.strip(b"\0").strip(b"x") == b"", "what was never written is zeros"


def test_names_survive_in_their_order(place: Place) -> None:
    for name in "abc":
        os.close(place.write(name, b""))
    place.ops.unlink(str(place.root / "a"))
    found = {"".join(sorted(place.image(nothing, lambda count, k=k: k))) for k in range(5)}  # type: ignore[misc]
    assert found == {"", "a", "ab", "abc", "bc"}


def test_a_file_replaced_atomically_is_the_old_or_the_new_one(place: Place) -> None:
    path = str(place.root / "table")
    write_file_atomically(place.ops, path, b"old")
    write_file_atomically(place.ops, path, b"new", sync_dir=False)
    found = {place.image(random.Random(seed).randrange)["table"] for seed in range(30)}
    assert found == {b"old", b"new"}
    write_file_atomically(place.ops, path, b"newer")
    assert place.image(nothing) == {"table": b"newer"}


def test_a_directory_has_names_of_its_own(place: Place) -> None:
    directory = str(place.root / "t-0")
    place.ops.mkdir(directory)
    os.close(place.write("t-0/log", b"x"))
    place.ops.fsync_dir(directory)
    assert place.image(nothing) == {}
    place.ops.fsync_dir(str(place.root))
    assert place.image(nothing) == {"t-0/log": b""}
    place.ops.rename(directory, directory + "-delete")
    assert set(place.image(nothing)) == {"t-0/log"}
    place.ops.rmtree(directory + "-delete")
    assert set(place.image(nothing)) == {"t-0/log"}
    assert place.image(everything) == {}


def test_what_was_there_before_is_kept(place: Place) -> None:
    (place.root / "t-0").mkdir()
    (place.root / "t-0" / "log").write_bytes(b"kept")
    place.ops.adopt(place.root)
    fd = place.write("t-0/log", b"K")
    assert place.image(nothing) == {"t-0/log": b"kept"}
    assert place.image(everything) == {"t-0/log": b"Kept"}
    os.close(fd)


def test_a_record_in_a_file_ends_with_its_last_whole_entry(tmp_path: Path) -> None:
    path = tmp_path / "record"
    record = write_record(path)
    record(("mkdir", "/a"))
    record(("write_at", 7, 0, b"x" * 100))
    ends = [end for end, _ in read_record(path)]
    assert [entry for _, entry in read_record(path)] == [("mkdir", "/a"), ("write_at", 7, 0, b"x" * 100)]
    os.truncate(path, ends[-1] - 1)
    assert [end for end, _ in read_record(path)] == ends[:1]
