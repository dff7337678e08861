"""Topics of a history and their end offsets, each asked over a new socket, because the brokers come and go."""

from __future__ import annotations

import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.history.events import Isolation
from tests.support.waiting import wait_until
from tests.support.wire import exchange

_LATEST = -1
_TIMEOUT_S = 30.0

_Address = tuple[str, int]


class Topics:
    """Topics of the brokers at `bootstrap` (host:port, separated by commas)."""

    def __init__(self, bootstrap: str) -> None:
        self._addresses = [_address(each) for each in bootstrap.split(",")]

    @contextmanager
    def _connection(self, address: _Address) -> Iterator[socket.socket]:
        with socket.create_connection(address, _TIMEOUT_S) as sock:
            yield sock

    def _metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Return what the first broker that answers knows.

        Raises:
            OSError, EOFError: none of them answers.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic) for topic in topics])
        for address in self._addresses[:-1]:
            with suppress(OSError, EOFError), self._connection(address) as sock:
                response: MetadataResponse = exchange(sock, request, 9)
                return response
        with self._connection(self._addresses[-1]) as sock:
            last: MetadataResponse = exchange(sock, request, 9)
            return last

    def create(self, names: Sequence[str], partitions: int) -> None:
        """Create topics with as many replicas as the brokers give them."""
        topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=-1) for name in names]
        self._change(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics."""
        self._change(DeleteTopicsRequest(topic_names=list(names), timeout_ms=30_000), 4)

    def _change(self, request: CreateTopicsRequest | DeleteTopicsRequest, version: int) -> None:
        """Have the controller change topics. Another broker may become the controller meanwhile."""
        results: list[Any] = []

        def is_done() -> bool:
            found = self._metadata(())
            for each in found.brokers:
                if each.node_id == found.controller_id:
                    with self._connection((each.host, each.port)) as sock:
                        response = exchange(sock, request, version)
                    results[:] = response.topics if isinstance(request, CreateTopicsRequest) else response.responses
                    return all(result.error_code != ErrorCode.NOT_CONTROLLER for result in results)
            return False

        wait_until(is_done, "the controller answers")
        for result in results:
            assert result.error_code == 0, result

    def ends(self, topic: str, partitions: int, isolation: Isolation) -> list[int]:
        """Return each partition's end for readers of `isolation`: the high watermark, or the last stable offset.

        A partition that cannot answer now has the end -1 or, for read_committed, -2.
        """
        level = int(isolation is Isolation.COMMITTED)
        ends = dict.fromkeys(range(partitions), -1 - level)
        found = self._metadata([topic])
        addresses = {each.node_id: (each.host, each.port) for each in found.brokers}
        led: dict[_Address, list[int]] = defaultdict(list)
        for each in found.topics[0].partitions:
            if each.leader_id in addresses:
                led[addresses[each.leader_id]].append(each.partition_index)
        for address, numbers in led.items():
            wanted = [ListOffsetsPartition(partition_index=number, timestamp=_LATEST) for number in numbers]
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=level, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
            )
            with suppress(OSError, EOFError), self._connection(address) as sock:
                for answer in exchange(sock, request, 7).topics[0].partitions:
                    if answer.error_code == 0:
                        ends[answer.partition_index] = answer.offset
        return list(ends.values())


def _address(text: str) -> _Address:
    host, _, port = text.rpartition(":")
    return host, int(port)
