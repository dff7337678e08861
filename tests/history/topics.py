"""Topics of a history and their end offsets, each asked over a new socket, because the broker comes and goes."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.history.events import Isolation
from tests.support.wire import exchange

_LATEST = -1
_TIMEOUT_S = 30.0


class Topics:
    """Topics of the broker at `bootstrap` (host:port)."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))

    @contextmanager
    def _connection(self) -> Iterator[socket.socket]:
        with socket.create_connection(self._address, _TIMEOUT_S) as sock:
            yield sock

    def create(self, names: Sequence[str], partitions: int) -> None:
        """Create topics."""
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names]
        with self._connection() as sock:
            response = exchange(sock, CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
        for result in response.topics:
            assert result.error_code == 0, result

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics."""
        with self._connection() as sock:
            response = exchange(sock, DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000), 4)
        for result in response.responses:
            assert result.error_code == 0, result

    def ends(self, topic: str, partitions: int, isolation: Isolation) -> list[int]:
        """Return each partition's end for readers of `isolation`: the high watermark, or the last stable offset.

        A partition that cannot answer now has the end -1 or, for read_committed, -2.
        """
        level = int(isolation is Isolation.COMMITTED)
        wanted = [ListOffsetsPartition(partition_index=number, timestamp=_LATEST) for number in range(partitions)]
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=level, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
        )
        with self._connection() as sock:
            answers = exchange(sock, request, 7).topics[0].partitions
        return [answer.offset if answer.error_code == 0 else -1 - level for answer in answers]
