"""A cluster of the brokers 1, 2 and 3, which run as processes: what it says of itself, and what is in its logs."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from tests.support.waiting import wait_until
from tests.support.wire import exchange

IDS = (1, 2, 3)
ANSWER_S = 10.0
ELECTION_S = 60.0
DEADLINE_S = 180.0


def admin_client(servers: str) -> AdminClient:
    """Return an administrator, whose requests end before those who wait for their results give up."""
    return AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": "45000", "log_level": 0})


class BrokerCluster(ABC):
    """See the module. Subclasses say where the brokers are."""

    @abstractmethod
    def address(self, broker: int) -> str:
        """Return host:port of a broker."""

    @abstractmethod
    def replicas(self, broker: int, topic: str, index: int) -> Iterable[Path]:
        """Return the directories in which a broker may have a replica."""

    # -- what there is

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, IDS))

    def metadata(self, broker: int = 1) -> MetadataResponse:
        """Return the cluster as a broker describes it; nothing if it does not answer."""
        host, _, port = self.address(broker).rpartition(":")
        with suppress(OSError, EOFError), socket.create_connection((host, int(port)), timeout=ANSWER_S) as connection:
            response: MetadataResponse = exchange(connection, MetadataRequest(topics=None), 9)
            return response
        return MetadataResponse(controller_id=-1)

    def controller(self, of: Collection[int] = IDS) -> int:
        """Return the controller that these brokers agree on, or -1."""
        known = {self.metadata(broker).controller_id for broker in of}
        return known.pop() if len(known) == 1 else -1

    def partitions(self, topic: str, broker: int = 1) -> dict[int, MetadataResponsePartition]:
        """Return a topic's partitions as a broker describes them; none if it does not know the topic."""
        found = [each for each in self.metadata(broker).topics if each.name == topic]
        return {each.partition_index: each for topic in found for each in topic.partitions}

    def wait_alive(self, brokers: Collection[int] = IDS, of: Collection[int] = IDS) -> None:
        """Wait until each broker of `of` knows exactly these brokers, and they agree on the controller."""
        wait_until(partial(self._are_alive, set(brokers), of), f"{list(of)} know {list(brokers)}", DEADLINE_S)

    def _are_alive(self, brokers: set[int], of: Collection[int]) -> bool:
        found = [self.metadata(broker) for broker in of]
        return (
            all({each.node_id for each in metadata.brokers} == brokers for metadata in found)
            and len({metadata.controller_id for metadata in found}) == 1
            and found[0].controller_id in brokers
        )

    def wait_whole(self, topic: str, among: Iterable[int] = IDS) -> None:
        """Wait until these brokers know that all partitions have leaders and all replicas are in sync."""
        for broker in among:
            wait_until(partial(self._is_whole, topic, broker), f"{broker} knows that {topic} is whole", DEADLINE_S)

    def _is_whole(self, topic: str, broker: int) -> bool:
        found = self.partitions(topic, broker).values()
        return bool(found) and all(
            each.leader_id > 0 and set(each.isr_nodes) == set(each.replica_nodes) for each in found
        )

    # -- what an administrator does

    def admin(self) -> AdminClient:
        return admin_client(self.bootstrap)

    def create(self, topic: str, assignment: list[list[int]], config: Mapping[str, str] | None = None) -> None:
        """Create a topic; return when every broker knows that it is whole."""
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=dict(config or {}))
        admin = self.admin()
        admin.create_topics([new], operation_timeout=30)[topic].result(60)
        self.wait_whole(topic)

    def elect_preferred(self, topic: str | None = None) -> None:
        """Have the first replicas of all partitions lead them; with a topic, only those of its partitions."""
        wanted = None if topic is None else [TopicPartitions(topic=topic, partitions=list(self.partitions(topic)))]
        # A broker of Apache Kafka that learns of the new leader while it begins to wait for it, answers at the end of
        # the time-out only (DelayedElectLeader, hasDelayedElectionOperations). That is long before the socket's.
        request = ElectLeadersRequest(topic_partitions=wanted, timeout_ms=15_000)
        wait_until(partial(self._is_elected, request), f"the controller elects the leaders of {topic or 'all topics'}")

    def _is_elected(self, request: ElectLeadersRequest) -> bool:
        """Tell whether the controller has elected leaders; False if there is none at present."""
        controller = self.controller()
        if controller < 0:
            return False
        host, _, port = self.address(controller).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=ELECTION_S) as connection:
            response: ElectLeadersResponse = exchange(connection, request, 1)
        results = [(each.topic, row) for each in response.replica_election_results for row in each.partition_result]
        if ErrorCode.NOT_CONTROLLER in {response.error_code, *(row.error_code for _, row in results)}:
            return False
        refused = {
            f"{name}-{row.partition_id}": ErrorCode(row.error_code).name
            for name, row in results
            if row.error_code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}
        }
        assert response.error_code == 0, ErrorCode(response.error_code).name
        assert request.topic_partitions is None or not refused, refused
        return True

    # -- the logs

    def log(self, broker: int, topic: str, index: int = 0) -> bytes:
        """Return the bytes of a replica's segments, one after the other."""
        files = sorted(file for directory in self.replicas(broker, topic, index) for file in directory.glob("*.log"))
        return b"".join(file.read_bytes() for file in files)

    def wait_equal(self, topic: str, index: int = 0, of: Iterable[int] = IDS) -> bytes:
        """Wait until replicas have the same bytes; return them."""
        brokers = list(of)
        wait_until(
            lambda: len({self.log(broker, topic, index) for broker in brokers}) == 1,
            f"the logs of {topic}-{index} on {brokers} are equal",
            DEADLINE_S,
        )
        return self.log(brokers[0], topic, index)
