"""Tests of disk reads for connections: which connection gets an error, and how many workers prefetch."""

from __future__ import annotations

import os
import random
from pathlib import Path

from broker.log.files.open_files import OpenFiles
from broker.log.segment.file_slices import FileSlice, SegmentFile
from broker.net.disk_reads import MAX_READING_AHEAD, DiskReads
from tests.broker.net.simulated import SimulatedLoop

MIB = 1 << 20


class Disk:
    """Notes what is read in; fails where it is told to."""

    def __init__(self) -> None:
        self.read: list[int] = []
        self.fails = False

    def resident(self, fd: int, position: int, length: int) -> bool:
        return False

    def read_in(self, fd: int, position: int, length: int) -> None:
        self.read.append(position)
        if self.fails:
            raise OSError("Input/output error")


def readers(tmp_path: Path, count: int) -> list[FileSlice]:
    """Slices of files, whose readers were found to wait for the disk once and to have read on."""
    pieces = []
    for number in range(count):
        path = tmp_path / str(number)
        path.touch()
        file = SegmentFile(os.open(path, os.O_RDONLY), OpenFiles())
        file.missed(0, MIB)
        assert file.stretch_after(0, MIB) is None
        pieces.append(FileSlice(file, MIB, MIB))
    return pieces


def test_few_workers_of_a_broker_read_ahead_at_once(tmp_path: Path) -> None:
    loop, disk = SimulatedLoop(random.Random(1)), Disk()
    one, other = (DiskReads(loop.run_on_worker, disk.resident, disk.read_in) for _ in range(2))
    pieces = readers(tmp_path, MAX_READING_AHEAD + 2)
    for piece in pieces[:-1]:
        one.read_ahead(piece, MIB, MIB)
    # Another broker of the process has workers of its own.
    other.read_ahead(pieces[-1], MIB, MIB)
    loop.settle()
    assert len(disk.read) == MAX_READING_AHEAD + 1
    one.read_ahead(pieces[-2], MIB, MIB)
    loop.settle()
    assert len(disk.read) == MAX_READING_AHEAD + 2


def test_an_error_is_told_to_who_waits_alone(tmp_path: Path) -> None:
    loop, disk = SimulatedLoop(random.Random(1)), Disk()
    disk.fails = True
    reads = DiskReads(loop.run_on_worker, disk.resident, disk.read_in)
    pieces = readers(tmp_path, MAX_READING_AHEAD + 1)
    for piece in pieces:
        # Each gives back its place, though it fails.
        reads.read_ahead(piece, MIB, MIB)
        loop.settle()
    assert len(disk.read) == len(pieces)
    errors: list[BaseException | None] = []
    reads.read_in(pieces[0], 0, MIB, errors.append)
    assert not errors, "it is told later, on the loop"
    loop.settle()
    assert [str(error) for error in errors] == ["Input/output error"]
