"""Test that a slow reader of a large response delays no other connection."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from broker.log.files.open_files import OpenFiles
from broker.log.segment.file_slices import FileSlice, SegmentFile
from broker.net.chunks import Bytes, Chunk
from broker.net.disk_reads import DiskReads
from broker.net.writer import SENDS_AT_ONCE, Wait, Writer
from tests.broker.net.simulated import SimulatedLoop

SIZE = 100_000
TAKEN_AT_ONCE = 1000


class Taking:
    """A transport whose peer is always there: it takes some of what it is given each time."""

    peer = "memory"
    has_unsent = False

    def __init__(self) -> None:
        self.taken = bytearray()
        self.sends = 0
        self.on_writable: Callable[[], None] | None = None

    def watch_readable(self, callback: Callable[[], None]) -> None:
        raise AssertionError

    def unwatch_readable(self) -> None:
        raise AssertionError

    def watch_writable(self, callback: Callable[[], None]) -> None:
        self.on_writable = callback

    def unwatch_writable(self) -> None:
        self.on_writable = None

    def recv_into(self, window: memoryview) -> int:
        raise AssertionError

    def send(self, data: Bytes) -> int:
        self.sends += 1
        self.taken += data[:TAKEN_AT_ONCE]
        return min(len(data), TAKEN_AT_ONCE)

    def send_many(self, chunks: Sequence[Bytes], more: bool) -> int:
        return self.send(b"".join(chunks))

    def send_file(self, fd: int, position: int, count: int) -> int:
        return self.send(os.pread(fd, count, position))

    def end_sending(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("kind", ["bytes", "chunks", "file"])
def test_others_have_their_turn_while_a_peer_takes_all_that_it_is_sent(tmp_path: Path, kind: str) -> None:
    data = random.Random(1).randbytes(SIZE)
    path = tmp_path / "log"
    path.write_bytes(data)
    file = SegmentFile(os.open(path, os.O_RDONLY), OpenFiles())
    responses: dict[str, list[Chunk]] = {
        "bytes": [data],
        "chunks": [data[at : at + 100] for at in range(0, SIZE, 100)],
        "file": [FileSlice(file, 0, SIZE // 2), FileSlice(file, SIZE // 2, SIZE // 2)],
    }
    loop, transport, sent = SimulatedLoop(random.Random(1)), Taking(), []
    writer = Writer(
        transport,
        DiskReads(loop.run_on_worker),
        loop.time,
        on_sent=lambda: sent.append(1),
        on_failed=lambda error: None,
    )
    writer.put(responses[kind])
    turns = [transport.sends]
    while transport.on_writable is not None:
        assert not sent
        assert writer.waits_for is Wait.PEER
        before = transport.sends
        transport.on_writable()
        turns.append(transport.sends - before)
    assert sent == [1]
    assert writer.waits_for is None
    assert transport.taken == data
    assert max(turns) <= SENDS_AT_ONCE
