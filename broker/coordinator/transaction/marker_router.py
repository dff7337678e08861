"""Carries the markers of a coordinator to the leaders of the partitions, on this broker or on others.

Each other broker has a queue. While a request to it is under way, markers wait, and go together in the next one (Kafka:
`TransactionMarkerChannelManager`). A marker whose leader is unknown, or is not the leader any more, fails with an
error; `completion` writes it again, and the leader is looked up anew then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.cluster_links import Connect
from broker.controller.broker_links import BrokerLinks
from broker.coordinator.transaction.machine import TopicPartition
from broker.coordinator.transaction.markers import Marker
from broker.metadata.cache import MetadataCache
from broker.metadata.model import BrokerRegistration
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import (
    ErrorCode,
    LeaderNotAvailableError,
    NotLeaderOrFollowerError,
    UnknownServerError,
    error_for,
)
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MOST_PARTITIONS = 2_000
"""The most partitions that a request has markers for."""

WriteMarker = Callable[[str, int, Marker], asyncio.Future[int]]
Written = dict[TopicPartition, asyncio.Future[int]]
UNKNOWN_OFFSET = -1
"""The offset of a marker that another broker has written."""


class MarkerRouter:
    """Carries markers to the leaders of partitions. Used on the event loop's thread only.

    Args:
        write_here: writes a marker to a partition that this broker leads (`markers.MarkerWriter.write`).
        leads: returns whether this broker leads a partition.
        cache: finds the leaders of others.
        connect: makes a link to a broker.
        version: the newest version of WriteTxnMarkers to send (by `inter.broker.protocol.version`).
    """

    def __init__(
        self,
        write_here: WriteMarker,
        leads: Callable[[str, int], bool],
        cache: MetadataCache,
        connect: Connect,
        version: int,
    ) -> None:
        self._write_here = write_here
        self._leads = leads
        self._cache = cache
        self._links = BrokerLinks(connect, "txn-markers")
        self._version = version
        self._queues: dict[int, _Queue] = {}

    def write(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        """Write `marker` to a partition, whichever broker leads it.

        Returns:
            A future that is done once the marker is replicated. Its errors are those of `MarkerWriter.write`, and:
            LinkError (the leader does not answer), LeaderNotAvailableError (there is none).
        """
        if self._leads(topic, index):
            return self._write_here(topic, index, marker)
        state = self._cache.image.partition(topic, index)
        leader = None if state is None else self._cache.image.brokers.get(state.leader)
        if leader is None:
            return _failed(LeaderNotAvailableError())
        queue = self._queues.get(leader.broker_id)
        if queue is None:
            queue = self._queues[leader.broker_id] = _Queue(self._links, self._version)
        return queue.add(leader, (topic, index), marker)

    async def close(self) -> None:
        """Fail the markers that wait."""
        await self._links.close()
        await asyncio.gather(*(queue.close() for queue in self._queues.values()))


class _Queue:
    """The markers for one broker."""

    def __init__(self, links: BrokerLinks, version: int) -> None:
        self._links = links
        self._version = version
        self._waiting: dict[Marker, Written] = {}
        self._broker: BrokerRegistration | None = None
        self._sending: asyncio.Task[None] | None = None

    def add(self, broker: BrokerRegistration, partition: TopicPartition, marker: Marker) -> asyncio.Future[int]:
        self._broker = broker
        waiting = self._waiting.setdefault(marker, {})
        future = waiting.get(partition)
        if future is None or future.done():
            future = waiting[partition] = asyncio.get_running_loop().create_future()
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send_all())
        return future

    async def close(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)
        for written in self._waiting.values():
            _settle(written, NotLeaderOrFollowerError())

    async def _send_all(self) -> None:
        try:
            # Those that are added in this turn go together.
            await asyncio.sleep(0)
            while self._waiting:
                await self._send(self._take())
        finally:
            self._sending = None

    def _take(self) -> dict[Marker, Written]:
        """Take what goes into one request: at most one marker of each producer, because the answer has only its id."""
        taken: dict[Marker, Written] = {}
        producers: set[int] = set()
        room = MOST_PARTITIONS
        for marker, written in list(self._waiting.items()):
            if marker.producer_id in producers or room <= 0:
                continue
            producers.add(marker.producer_id)
            some = dict(list(written.items())[:room])
            room -= len(some)
            taken[marker] = some
            rest = {partition: future for partition, future in written.items() if partition not in some}
            if rest:
                self._waiting[marker] = rest
            else:
                del self._waiting[marker]
        return taken

    async def _send(self, taken: dict[Marker, Written]) -> None:
        assert self._broker is not None
        try:
            link = self._links.to(self._broker)
            response = await link.request(_request(taken), max_version=self._version)
        except asyncio.CancelledError:
            for written in taken.values():
                _settle(written, NotLeaderOrFollowerError())
            raise
        except LinkError as error:
            for written in taken.values():
                _settle(written, error)
        except Exception as error:
            # The peer may have no version in common, for example. Each transaction that waits reports the error.
            for written in taken.values():
                _settle(written, error)
        else:
            _settle_all(taken, response)


def _request(taken: dict[Marker, Written]) -> WriteTxnMarkersRequest:
    markers = []
    for marker, written in taken.items():
        topics: dict[str, list[int]] = {}
        for topic, index in written:
            topics.setdefault(topic, []).append(index)
        markers.append(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=found) for name, found in topics.items()],
                coordinator_epoch=marker.coordinator_epoch,
            )
        )
    return WriteTxnMarkersRequest(markers=markers)


def _settle_all(taken: dict[Marker, Written], response: WriteTxnMarkersResponse) -> None:
    codes = {
        (result.producer_id, topic.name, partition.partition_index): partition.error_code
        for result in response.markers
        for topic in result.topics
        for partition in topic.partitions
    }
    for marker, written in taken.items():
        for (topic, index), future in written.items():
            code = codes.get((marker.producer_id, topic, index))
            if future.done():
                continue
            if code is None:
                future.set_exception(UnknownServerError(f"the answer says nothing of {topic}-{index}"))
            elif code == ErrorCode.NONE:
                future.set_result(UNKNOWN_OFFSET)
            else:
                future.set_exception(error_for(code))


def _settle(written: Written, error: Exception) -> None:
    for future in written.values():
        if not future.done():
            future.set_exception(error.copy() if isinstance(error, LinkError) else error)


def _failed(error: Exception) -> asyncio.Future[int]:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    future.set_exception(error)
    return future
