"""Send tables as record batches, without a Python object for each row: `Producer.send_arrow`. Needs pyarrow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kafkalog.client.producer.arrow.arrow_rows import chunk_bytes, chunks
from kafkalog.client.producer.arrow.partition_rows import LayoutOf, RowPartitioner
from kafkalog.client.producer.batches.encoded_batch import EncodedFuture
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.protocol.errors import MessageTooLargeError
from kafkalog.records.batch import HEADER_SIZE

Table: TypeAlias = pa.Table | pa.RecordBatch
SendBatch = Callable[[str, int, bytearray], EncodedFuture]


@dataclass(frozen=True)
class Places:
    """The indexes of the columns that are sent."""

    value: int
    key: int | None = None
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None
    topic: int | None = None


class ArrowSender:
    """Send tables for one producer. Safe for use by several threads.

    Records without a key continue to fill the partition where the last table ended.
    """

    def __init__(self, config: ProducerConfig, layout: LayoutOf, send_batch: SendBatch) -> None:
        self._config = config
        self._layout = layout
        self._send_batch = send_batch
        self._partitioners: dict[str, RowPartitioner] = {}
        self._lock = threading.Lock()
        """Guards the dictionary of partitioners, and nothing that takes time."""

    def send(
        self,
        topic: str,
        rows: Table,
        *,
        value: str,
        key: str | None,
        headers: str | None,
        partition: str | int | None,
        timestamp: str | int | None,
        ignore_keys: bool,
    ) -> list[EncodedFuture]:
        """See `Producer.send_arrow`."""
        if isinstance(partition, int):
            self._layout(topic, partition)
        batches, places = _columns(rows, value, key, headers, partition, timestamp)
        partitioner = self._partitioner(topic, ignore_keys)
        futures: list[EncodedFuture] = []
        for chunk in chunks(batches, places, chunk_bytes(self._config)):
            sizes = chunk.record_sizes()
            largest, limit = int(sizes.max()), self._config.max_request_size
            if largest > limit:
                raise MessageTooLargeError(
                    f"a record of up to {largest} bytes is larger than max.request.size ({limit})"
                )
            for group in partitioner.groups(chunk, sizes):
                encoded = chunk.encode(group.rows, self._config)
                futures += [self._send_batch(topic, group.partition, data) for data in encoded]
        return futures

    def _partitioner(self, topic: str, ignore_keys: bool) -> RowPartitioner:
        with self._lock:
            partitioner = self._partitioners.get(topic)
            if partitioner is None:
                partitioner = self._partitioners[topic] = RowPartitioner(
                    self._layout,
                    topic=topic,
                    batch_bytes=self._config.batch_limit - HEADER_SIZE,
                    ignore_keys=ignore_keys,
                )
            return partitioner


def _columns(
    rows: Table,
    value: str,
    key: str | None,
    headers: str | None,
    partition: str | int | None,
    timestamp: str | int | None,
) -> tuple[list[pa.RecordBatch], Places]:
    """Select the columns that are sent, with the types that are encoded, and return them with their indexes."""
    count = rows.num_rows
    found: dict[str, Any] = {"value": _binary(rows, value)}
    if key is not None:
        found["key"] = _binary(rows, key)
    if headers is not None:
        found["headers"] = _column(rows, headers)
    if isinstance(partition, int):
        found["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), count)
    elif partition is not None:
        found["partition"] = _integers(rows, partition).cast(pa.int32())
    if isinstance(timestamp, int):
        if timestamp < 0:
            raise ValueError(f"timestamp {timestamp} is no time in ms")
        found["timestamp"] = pa.repeat(pa.scalar(timestamp, pa.int64()), count)
    elif timestamp is not None:
        found["timestamp"] = _timestamps(rows, timestamp)
    places = {name: place for place, name in enumerate(found)}
    table = pa.table(found)
    return table.to_batches(), Places(**places)


def _column(rows: Table, name: str) -> Any:
    places = rows.schema.get_all_field_indices(name)
    if len(places) != 1:
        have = ", ".join(rows.schema.names)
        raise ValueError(f"{'no column' if not places else 'several columns'} {name!r}; the columns are {have}")
    return rows.column(places[0])


def _binary(rows: Table, name: str) -> Any:
    column = _column(rows, name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if kind == pa.binary():
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_null(kind):
        return column.cast(pa.binary())
    raise TypeError(f"column {name!r} is {kind}; keys and values are binary or strings: serialize it first")


def _integers(rows: Table, name: str) -> Any:
    column = _column(rows, name)
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise TypeError(f"column {name!r} is {column.type}; expected integers")
    return column


def _timestamps(rows: Table, name: str) -> Any:
    column = _column(rows, name)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise TypeError(f"column {name!r} is {column.type}; expected timestamps, or integers in ms")
    column = pc.fill_null(column.cast(pa.int64()), int(time.time() * 1000))
    if len(column) and pc.min(column).as_py() < 0:
        raise ValueError(f"column {name!r} has times before 1970")
    return column
