"""Choose each row's topic and partition as Spark's Kafka sink, and the Java producer below it, do.

The option `topic` comes before the column. The column `partition` decides where it is not null; otherwise the key's
hash (`toPositive(murmur2(key)) % partitions`). Rows without a key go to one partition for about a batch, and then to
another one (KIP-480, KIP-794).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.client.errors import ClientError
from kafkalog.client.producer.arrow.arrow_rows import Chunk
from kafkalog.client.producer.partitioner import StickyPartitioner, TopicLayout
from kafkalog.records.arrow.grouping import NO_KEY, Int32s, Int64s, group_rows, hash_keys
from kafkalog.records.arrow.integers import to_numpy

_OPEN = -1
"""Marks a row whose partition is not decided yet."""


class RowError(ClientError, ValueError):
    """A row cannot be written; the message says what is wrong with it."""


class LayoutOf(Protocol):
    """Returns a topic's partitions, `partition` among them: `Producer.layout`."""

    def __call__(self, topic: str, partition: int | None = None) -> TopicLayout: ...


class Group(NamedTuple):
    """Rows of a chunk that go to the same partition, in their order."""

    topic: str
    partition: int
    rows: Int64s


class RowPartitioner:
    """Divide rows among partitions, chunk after chunk. Safe for use by several threads."""

    def __init__(
        self,
        layout: LayoutOf,
        *,
        topic: str | None,
        batch_bytes: int,
        ignore_keys: bool = False,
        random: Callable[[], Random] = Random,
    ) -> None:
        self._layout = layout
        self._topic = topic
        self._batch_bytes = max(batch_bytes, 1)
        self._ignore_keys = ignore_keys
        self._random = random
        self._sticky: dict[str, StickyPartitioner] = {}
        self._lock = threading.Lock()
        """Guards the sticky partitions. No thread holds it while it waits for metadata or memory: a delivery callback
        may send rows, too, and the sender's thread, which calls it, would wait for itself."""

    def groups(self, chunk: Chunk, sizes: Int64s) -> Iterator[Group]:
        """Group the chunk's rows by partition; `sizes` are those of their records.

        Errors of `Producer.layout` are raised, too.

        Raises:
            RowError: A row has no topic, or a negative partition.
        """
        names, codes = self._topics(chunk)
        explicit = _explicit(chunk.partitions)
        layouts = [self._layout_for(name, codes == code, explicit) for code, name in enumerate(names)]
        counts = np.array([layout.partitions for layout in layouts], np.int32)
        firsts = np.cumsum(counts, dtype=np.int32) - counts
        chosen = np.full(len(chunk), _OPEN, np.int32) if explicit is None else explicit
        if chunk.keys is not None and not self._ignore_keys:
            hashes = hash_keys(chunk.keys)
            np.copyto(chosen, hashes % counts[codes], where=(chosen == _OPEN) & (hashes != NO_KEY))
        with self._lock:
            for code, name in enumerate(names):
                rest = np.flatnonzero((chosen == _OPEN) & (codes == code))
                if len(rest):
                    self._stick(name, layouts[code], rest, sizes[rest], chosen)
        order, bounds = group_rows(firsts[codes] + chosen, int(counts.sum()))
        places = (
            (name, partition)
            for name, layout in zip(names, layouts, strict=True)
            for partition in range(layout.partitions)
        )
        for (name, partition), (start, end) in zip(places, pairwise(bounds.tolist()), strict=True):
            if start < end:
                yield Group(name, partition, order[start:end])

    def _topics(self, chunk: Chunk) -> tuple[list[str], Int32s]:
        """Return the topics' names and each row's index among them; a single index where all rows have one topic."""
        if self._topic is not None or chunk.topics is None:
            assert self._topic is not None
            return [self._topic], np.zeros(1, np.int32)
        if chunk.topics.null_count:
            raise RowError("null topic present in the data. Use the topic option for setting a default topic.")
        encoded = pc.dictionary_encode(chunk.topics)
        return encoded.dictionary.to_pylist(), to_numpy(encoded.indices)

    def _layout_for(self, name: str, rows: npt.NDArray[np.bool_], explicit: Int32s | None) -> TopicLayout:
        if explicit is None:
            return self._layout(name)
        largest = int(np.max(explicit, where=rows, initial=_OPEN))
        return self._layout(name, None if largest == _OPEN else largest)

    def _stick(self, name: str, layout: TopicLayout, rows: Int64s, sizes: Int64s, chosen: Int32s) -> None:
        """Choose partitions for rows without a key; the lock is held.

        As many rows as fill a batch go to the same partition.
        """
        sticky = self._sticky.get(name)
        if sticky is None:
            sticky = self._sticky[name] = StickyPartitioner(self._batch_bytes, self._random())
        ends = np.cumsum(sizes)
        start = before = 0
        while start < len(rows):
            if sticky.bytes_left <= 0 or sticky.partition >= layout.partitions:
                sticky.next(layout.available or range(layout.partitions))
            stop = int(np.searchsorted(ends, before + sticky.bytes_left, side="right"))
            if stop == start:
                # The row does not fit the batch any more. A row that fits no batch goes alone.
                fresh = sticky.bytes_left == self._batch_bytes
                sticky.bytes_left = 0
                if not fresh:
                    continue
                stop = start + 1
            chosen[rows[start:stop]] = sticky.partition
            after = int(ends[stop - 1])
            sticky.bytes_left -= after - before
            start, before = stop, after


def _explicit(partitions: pa.Array | None) -> Int32s | None:
    """Return the partitions that rows name, `_OPEN` for rows without one; None where no row names one."""
    if partitions is None or partitions.null_count == len(partitions):
        return None
    least = pc.min(partitions).as_py()
    if least < 0:
        raise RowError(f"Invalid partition: {least}. Partition number should always be non-negative or null.")
    return to_numpy(partitions, null=_OPEN).astype(np.int32)
