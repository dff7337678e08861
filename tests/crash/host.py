"""A broker in this process whose work runs when the test says so, and the contents of its partitions."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from broker.config.server import BrokerConfig
from broker.log.files.file_ops import Buffer, FileOps
from broker.log.log import Log
from broker.log.producer_state.producer_entry import SEQUENCE_MASK
from broker.log.segment.batch_scan import verified_batches
from broker.net.sockets.network import LoopNetwork
from broker.replica.partition import Partition
from broker.runtime import Runtime
from broker.server import Server
from kafkalog.records.batch import BatchHeader, iter_headers
from kafkalog.records.errors import RecordsError
from tests.broker.log.support import NOW
from tests.support.in_process.runtime import InlineWorkers

Key = tuple[uuid.UUID, int]
"""A partition of one incarnation of a topic."""


class Row(NamedTuple):
    """One batch as it was appended."""

    base: int
    last: int
    epoch: int
    producer: int
    last_sequence: int
    marker: bool
    data: bytes


class Host:
    """A broker in this process whose background work runs when the test says so.

    Its clock does not advance, so the same seed makes the same record.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, root: Path, settings: dict[str, str], ops: FileOps) -> None:
        self.loop = loop
        directories = ",".join(str(root / name) for name in settings["directories"].split(","))
        texts = {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": directories,
            **{name: value for name, value in settings.items() if name != "directories"},
        }
        runtime = Runtime(loop, InlineWorkers(loop), LoopNetwork(loop), now_ms=lambda: NOW, files=ops)
        self.server = Server(BrokerConfig(texts), runtime)
        self.run(self.server.start())

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def settle(self) -> None:
        """Run the callbacks that are due now."""
        self.run(asyncio.sleep(0))
        self.run(asyncio.sleep(0))

    def kill(self) -> None:
        """Kill the process; its file operations remain."""
        server = self.server
        for task in list(server._background):
            task.cancel()
        assert server.acceptor is not None
        server.acceptor.stop_accepting()
        server.logs.unlock()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.settle()

    def stop(self) -> None:
        self.run(self.server.stop())

    @property
    def topics(self) -> dict[str, uuid.UUID]:
        return {name: topic.topic_id for name, topic in self.server.store.state.topics.items()}

    def partitions(self) -> dict[Key, Partition]:
        ids = self.topics
        return {(ids[partition.topic], partition.index): partition for partition in self.server.replicas}


def row_of(header: BatchHeader, data: Buffer) -> Row:
    sequence = (header.base_sequence + header.last_offset_delta) & SEQUENCE_MASK if header.producer_id >= 0 else -1
    return Row(
        header.base_offset, header.last_offset, header.partition_leader_epoch, header.producer_id, sequence,
        header.is_control, bytes(data),
    )  # fmt: skip


def rows_of(log: Log) -> list[Row]:
    """Return every batch that a log serves."""
    rows: list[Row] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data and log.config.compact:
            break
        before = len(rows)
        for position, header in iter_headers(memoryview(data)):
            rows.append(row_of(header, data[position : position + header.size]))
        assert len(rows) > before, f"nothing at {offset} of {log}"
        offset = rows[-1].last + 1
    return rows


def all_rows(log: Log) -> list[Row]:
    """Return every batch of a log, also before its log start offset, because a power cut may bring these back.

    Of the latter, return the first whole ones of each segment. Batches before a checkpointed log start offset need not
    have been forced to the device, and are not checked after a power cut, because nobody can read them.
    """
    start = log.log_start_offset
    before: list[Row] = []
    for segment in log.segments:
        if segment.base_offset >= start:
            break
        with contextlib.suppress(RecordsError):
            for _, header, data in verified_batches(segment.file.fd, 0, segment.size):
                if header.last_offset < start:
                    before.append(row_of(header, data))
    return before + rows_of(log)


def rows_at(log: Log, offset: int) -> int:
    """Return the base offset of the first batch of a read at `offset`."""
    ((_, header), *_) = iter_headers(memoryview(log.read(offset, 1).read()))
    return header.base_offset
