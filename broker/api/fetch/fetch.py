"""Fetch (key 1): record batches from many partitions, as they are stored in the log.

A response holds at least one whole batch of the first partition that has any; apart from that it keeps to the request's
limits. A fetch that finds fewer than `min_bytes` waits for appends, for at most `max_wait_ms`. The record bytes
never pass through this process: the response carries slices of segment files. Versions 0 to 3 are different, because
their consumers know older message formats only: records in later formats are converted (`fetch_conversion`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.api.context import Request
from broker.api.fetch.fetch_in_turns import fetch_in_turns
from broker.api.fetch.fetch_reading import READ_IN_STEPS, FetchReading, ResponseTopics, read_in, refuse, replica_of
from broker.api.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, TOPIC_ID_VERSION
from broker.api.fetch.fetch_waiting import WaitingFetch
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchRequest

MANY_BYTES = 8 << 10
"""A request of this many bytes or more may name more partitions than fit into one turn, as many clients have one."""


def handle_fetch(request: Request) -> Awaitable[None] | None:
    message: FetchRequest = request.message
    broker = request.broker
    names_broker = replica_of(request) >= 0
    request.is_from_follower = names_broker and request.allows_cluster(AclOperation.CLUSTER_ACTION)
    if names_broker and not request.is_from_follower and message.session_epoch == INITIAL_EPOCH:
        # A session of a follower would push out those of consumers.
        message.session_epoch = FINAL_EPOCH
    if request.nbytes >= MANY_BYTES:
        return fetch_in_turns(request)
    names = broker.metadata.names_by_id() if request.version >= TOPIC_ID_VERSION else {}
    context = broker.fetch_sessions.context(request.version, message, names, broker.loop.time())
    if context is None:
        return fetch_in_turns(request)
    if context.error is not ErrorCode.NONE:
        refuse(request, context.error)
        return None
    reading = FetchReading(request, context)
    missing = reading.missing(context.partitions)
    if missing:
        return _read_in_and_serve(reading, missing)
    _serve(reading)
    return None


async def _read_in_and_serve(reading: FetchReading, missing: list[Callable[[], None]]) -> None:
    """Read pages that are only on the disk, on a worker, so that other requests do not wait."""
    request = reading.request
    for _ in range(READ_IN_STEPS):
        try:
            await request.broker.workers.run(read_in, missing)
        except OSError:
            # The read gets the same error, and answers it for the one partition.
            break
        if request.connection.closed:
            return
        missing = reading.missing(reading.context.partitions)
        if not missing:
            break
    # Partitions that have woken meanwhile are read as well, because this request is not woken for them again. This is
    # the first read all the same: it notes the positions of a follower.
    reading.context.read_again()
    _serve(reading)


def _serve(reading: FetchReading) -> None:
    request, partitions = reading.request, reading.context.partitions
    message: FetchRequest = request.message
    reading.read(partitions)
    if (
        message.max_wait_ms <= 0
        or (not partitions and reading.context.session is None)
        or reading.failed
        or reading.has_enough
        or (reading.nbytes and reading.is_behind(partitions))
    ):
        _respond(reading)
        return
    operation = DelayedFetch(reading)
    request.connection.state = operation
    request.broker.replicas.fetch_purgatory.watch(operation, operation.keys, message.max_wait_ms / 1000)


def _respond(reading: FetchReading) -> None:
    """Send the records that were read, converted if necessary; send nothing if the client is above a quota."""
    if reading.hold_back():
        return
    if reading.needs_conversion:
        reading.convert(lambda: _send(reading))
    else:
        _send(reading)


def _send(reading: FetchReading) -> None:
    topics: ResponseTopics = {}
    reading.add_results(topics, reading.context.partitions, reading.results)
    reading.request.reply(reading.response(topics), 0)


class DelayedFetch(WaitingFetch):
    """A fetch that has found too little: it waits, and reads again."""

    __slots__ = ()

    def try_complete(self) -> bool:
        reading = self._reading
        if self.is_called:
            self.expire()
            return True
        if not self.is_due(reading.min_bytes - reading.nbytes):
            return False
        self._read_again()
        self.begin_again()
        if reading.failed or reading.has_enough or (reading.nbytes and reading.is_behind(reading.context.partitions)):
            _respond(reading)
            return True
        return False

    def expire(self) -> None:
        self._read_again()
        _respond(self._reading)

    def fail(self, error: Exception) -> None:
        self._reading.request.drop()

    def _read_again(self) -> None:
        self._reading.begin_again()
        self._reading.read(self._reading.context.partitions)


HANDLERS = {FetchRequest: handle_fetch}
