"""Records for consumers from before Kafka 0.11, which use Fetch 0 to 3: converted to a format that they know.

The records of one fetch are read into memory and converted on a worker. Records in a format that the consumer knows are
sent as a slice of their file, as in later versions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from broker.api.context import Request
from broker.api.fetch.fetch_partition import FetchPartitionState
from broker.log.segment.file_slices import FileSlice
from broker.replica.isolation import FetchIsolation
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.fetch import FetchRequest, PartitionData
from kafkalog.records.any_format import OLD_MAGICS
from kafkalog.records.legacy.convert import down_convert, needs_conversion

AS_STORED_SINCE = 4
"""From this version of Fetch on records are sent as they are stored."""

logger = logging.getLogger(__name__)

Fail = Callable[[PartitionData, FetchPartitionState, Exception], None]


class Limited:
    """A slice of which at most `limit` bytes may be sent, even if that cuts off the last message.

    Consumers that use Fetch 0 to 2 have buffers of that size. The slice is longer if the first batch is, because only a
    whole batch can be converted.
    """

    __slots__ = ("limit", "piece")

    def __init__(self, piece: FileSlice, limit: int) -> None:
        self.piece = piece
        self.limit = limit

    def __len__(self) -> int:
        return min(len(self.piece), self.limit)


class _Wanted(NamedTuple):
    piece: FileSlice
    limit: int | None
    offset: int
    magic: int
    is_allowed: bool


class _Done(NamedTuple):
    """The bytes to send, how many of their records were converted, and the offset after the last record read."""

    records: FileSlice | bytearray
    converted: int
    behind: int


class FetchConversion:
    """The conversion of what one fetch has read.

    Args:
        results: one for each of `states`; `records` are replaced, or an error takes their place.
        fail: puts an error into a result.
        send: sends the response.
    """

    def __init__(
        self,
        request: Request,
        states: Sequence[FetchPartitionState],
        results: Sequence[PartitionData],
        fail: Fail,
        send: Callable[[], None],
    ) -> None:
        self._request = request
        self._states = states
        self._results = results
        self._fail = fail
        self._send = send
        self._magic = OLD_MAGICS[0] if request.version <= 1 else OLD_MAGICS[1]

    def start(self) -> None:
        """Begin; the response is sent when it is done."""
        wanted = {
            at: self._wanted(at, self._states[at].fetch_offset) for at, data in enumerate(self._results) if data.records
        }
        self._go_on(wanted)

    def _wanted(self, at: int, offset: int) -> _Wanted:
        state, records = self._states[at], self._results[at].records
        partition = self._request.broker.replicas.get(state.name, state.partition)
        piece, limit = (records.piece, records.limit) if isinstance(records, Limited) else (records, None)
        is_allowed = partition is None or partition.log.config.message_downconversion_enable
        return _Wanted(piece, limit, offset, self._magic, is_allowed)

    def _go_on(self, wanted: dict[int, _Wanted]) -> None:
        if wanted:
            self._request.broker.replicas.conversions.run(_convert_all, wanted).add_done_callback(self._take)
        elif any(data.records or data.error_code for data in self._results):
            self._send()
        elif not self._request.connection.closed:
            # Older formats have no place for what was read. A client that got no records at once would ask in a loop.
            self._request.broker.loop.call_later(self._request.message.max_wait_ms / 1000, self._send)

    def _take(self, work: asyncio.Future[dict[int, _Done | Exception]]) -> None:
        if self._request.connection.closed:
            return
        try:
            again = {}
            for at, done in work.result().items():
                onward = self._take_one(at, done)
                if onward is not None:
                    again[at] = onward
            self._go_on(again)
        except Exception:
            # This is a callback of the worker's future: without an answer the client would wait for its time-out.
            logger.exception("closing connection from %s: converting records failed", self._request.connection.peer)
            self._request.drop()

    def _take_one(self, at: int, done: _Done | Exception) -> _Wanted | None:
        """Put converted records into the result, or return what to convert next if there were none.

        Transaction markers convert to nothing, and a consumer of older formats could not get past them by itself.
        """
        data, state = self._results[at], self._states[at]
        limit = data.records.limit if isinstance(data.records, Limited) else None
        data.records = b""
        if isinstance(done, Exception):
            self._fail(data, state, done)
            return None
        partition = self._request.broker.replicas.get(state.name, state.partition)
        if partition is None:
            return None
        partition.log.fetch_message_conversions += done.converted
        if done.records:
            data.records = done.records
        elif state.fetch_offset < done.behind < partition.high_watermark:
            message: FetchRequest = self._request.message
            isolation = FetchIsolation.of(message.replica_id, message.isolation_level)
            try:
                result = partition.read(
                    done.behind, max(state.max_bytes, 1), isolation, state.leader_epoch, min_one=True
                )
            except Exception as error:
                self._fail(data, state, error)
                return None
            if result.slices:
                piece = result.slices[0]
                data.records = piece if limit is None else Limited(piece, limit)
                return self._wanted(at, done.behind)
        return None


def _convert_all(wanted: dict[int, _Wanted]) -> dict[int, _Done | Exception]:
    """Convert one fetch on a worker."""
    done: dict[int, _Done | Exception] = {}
    for at, each in wanted.items():
        try:
            done[at] = _convert(each)
        except Exception as error:
            done[at] = error
    return done


def _convert(wanted: _Wanted) -> _Done:
    piece, limit = wanted.piece, wanted.limit
    data = piece.read()
    if not needs_conversion(data, wanted.magic):
        length = len(piece) if limit is None else min(len(piece), limit)
        return _Done(FileSlice(piece.file, piece.position, length), 0, wanted.offset)
    if not wanted.is_allowed:
        raise UnsupportedVersionError
    converted = down_convert(data, wanted.magic, wanted.offset, limit=len(piece) if limit is None else limit)
    if limit is not None:
        del converted.records[limit:]
    return _Done(converted.records, converted.converted, converted.next_offset)
