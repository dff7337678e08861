"""Replicas as administrators see them: who leads, which brokers hold them, and in which of their log directories.

Calls that name several partitions tell of each what came of it, None or the broker's error: one that fails does not
keep the others from being done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.retry import Retry
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kafkalog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from kafkalog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from kafkalog.protocol.schema import Request

Outcomes = dict[TopicPartition, KafkaError | None]
"""Of each partition the error it met, or None."""


class ElectionType(IntEnum):
    """Who shall be elected: the preferred leader, or any live replica even if it is not in sync."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """Brokers that hold a partition while it is reassigned, which of them are new, and which will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaOnBroker(NamedTuple):
    """A partition's replica on one broker."""

    partition: TopicPartition
    broker: int


class ReplicaInfo(NamedTuple):
    """A replica in a log directory.

    ``offset_lag``: how far it is behind the high watermark, or, of the copy that a move makes (``is_future``), behind
    the replica that it is to replace; -1 where that is not known. ``size`` in bytes.
    """

    size: int
    offset_lag: int
    is_future: bool


class LogDirInfo(NamedTuple):
    """A log directory of a broker: its ``error``, or what it holds; bytes of its volume, -1 where they are not told."""

    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ReplicaAdmin(Closing):
    """Administration of replicas. Calls wait up to ``default.api.timeout.ms`` and then raise ClientTimeoutError."""

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self._own = cluster is None
        self.cluster = cluster or Cluster(config)

    def close(self) -> None:
        """Close all connections."""
        if self._own:
            self.cluster.close()

    # Leaders

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, kind: ElectionType = ElectionType.PREFERRED
    ) -> Outcomes:
        """Have leaders elected for these partitions, or (None) for all of them.

        Outcomes are None, ElectionNotNeededError (of all partitions: these are left out), PreferredLeaderNotAvailable-
        Error, EligibleLeadersNotAvailableError, UnknownTopicOrPartitionError. UnsupportedVersionError for unclean
        elections by brokers older than Kafka 2.4.
        """
        topics = None
        if partitions is not None:
            topics = [TopicPartitions(topic=name, partitions=ids) for name, ids in _by_topic(partitions).items()]
            if not topics:
                return {}

        def attempt(retry: Retry) -> Outcomes:
            request = ElectLeadersRequest(
                election_type=kind, topic_partitions=topics, timeout_ms=self._timeout_ms(retry)
            )
            response: ElectLeadersResponse = self.cluster.request_controller(request, deadline=retry.deadline)
            _raise(response.error_code)
            return {
                TopicPartition(topic.topic, row.partition_id): _outcome(row.error_code, row.error_message)
                for topic in response.replica_election_results
                for row in topic.partition_result
            }

        return self.cluster.on_controller(attempt)

    # Brokers

    def alter_partition_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Have partitions held by these brokers, the preferred leader first; None cancels what is under way.

        Outcomes are None when it has begun, InvalidReplicaAssignmentError, NoReassignmentInProgressError,
        UnknownTopicOrPartitionError.
        """
        if not replicas:
            return {}
        topics = [
            ReassignableTopic(
                name=name,
                partitions=[
                    ReassignablePartition(
                        partition_index=index, replicas=_listed(replicas[TopicPartition(name, index)])
                    )
                    for index in indexes
                ],
            )
            for name, indexes in _by_topic(replicas).items()
        ]

        def attempt(retry: Retry) -> Outcomes:
            request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=self._timeout_ms(retry))
            response: AlterPartitionReassignmentsResponse = self.cluster.request_controller(
                request, deadline=retry.deadline
            )
            _raise(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, row.partition_index): _outcome(row.error_code, row.error_message)
                for topic in response.responses
                for row in topic.partitions
            }

        return self.cluster.on_controller(attempt)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The reassignments under way, of these partitions or (None) of all."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in _by_topic(partitions).items()
            ]

        def attempt(retry: Retry) -> dict[TopicPartition, Reassignment]:
            request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=self._timeout_ms(retry))
            response: ListPartitionReassignmentsResponse = self.cluster.request_controller(
                request, deadline=retry.deadline
            )
            _raise(response.error_code, response.error_message)
            return {
                TopicPartition(topic.name, row.partition_index): Reassignment(
                    tuple(row.replicas), tuple(row.adding_replicas), tuple(row.removing_replicas)
                )
                for topic in response.topics
                for row in topic.partitions
            }

        return self.cluster.on_controller(attempt)

    # Log directories

    def alter_replica_log_dirs(
        self, directories: Mapping[ReplicaOnBroker, str]
    ) -> dict[ReplicaOnBroker, KafkaError | None]:
        """Have replicas moved to other log directories (absolute paths) of the brokers that hold them.

        Outcomes are None when the move has begun, LogDirNotFoundError, KafkaStorageError for a directory that is
        offline, ReplicaNotAvailableError or UnknownTopicOrPartitionError where the broker does not hold the partition
        (it remembers the directory for when it will), …. `describe_log_dirs` tells how far a move is.
        """
        outcomes: dict[ReplicaOnBroker, KafkaError | None] = {}
        by_broker: dict[int, dict[str, list[TopicPartition]]] = defaultdict(lambda: defaultdict(list))
        for replica, path in directories.items():
            by_broker[replica.broker][path].append(replica.partition)
        retry = Retry(self.cluster.config)
        for node_id, paths in by_broker.items():
            request = AlterReplicaLogDirsRequest(
                dirs=[
                    AlterReplicaLogDir(
                        path=path,
                        topics=[
                            AlterReplicaLogDirTopic(name=name, partitions=indexes)
                            for name, indexes in _by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in paths.items()
                ]
            )
            response: AlterReplicaLogDirsResponse = self._ask(node_id, request, retry)
            for topic in response.results:
                for row in topic.partitions:
                    partition = TopicPartition(topic.topic_name, row.partition_index)
                    outcomes[ReplicaOnBroker(partition, node_id)] = _outcome(row.error_code)
        return {replica: outcomes[replica] for replica in directories if replica in outcomes}

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, dict[str, LogDirInfo]]:
        """The log directories of these brokers, or (None) of all, by path, with the replicas in them."""
        retry = Retry(self.cluster.config)
        if brokers is None:
            brokers = sorted(self.cluster.metadata([], refresh=True, deadline=retry.deadline).brokers)
        found = {}
        for node_id in brokers:
            response: DescribeLogDirsResponse = self._ask(node_id, DescribeLogDirsRequest(topics=None), retry)
            _raise(response.error_code)
            found[node_id] = {
                result.log_dir: LogDirInfo(
                    _outcome(result.error_code),
                    {
                        TopicPartition(topic.name, row.partition_index): ReplicaInfo(
                            row.partition_size, row.offset_lag, row.is_future_key
                        )
                        for topic in result.topics
                        for row in topic.partitions
                    },
                    result.total_bytes,
                    result.usable_bytes,
                )
                for result in response.results
            }
        return found

    # Inside

    def _ask(self, node_id: int, request: Request, retry: Retry) -> Any:
        """Ask the broker that the request is about, again where it does not answer."""
        self.cluster.metadata([], deadline=retry.deadline, refresh=True)
        return retry.run(lambda: self.cluster.request_to(node_id, request))

    def _timeout_ms(self, retry: Retry) -> int:
        return round(min(retry.left, self.cluster.config.request_timeout) * 1000)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(set(partitions)):
        grouped[tp.topic].append(tp.partition)
    return grouped


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _outcome(code: int, message: str | None = None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else error_for(code, message)


def _raise(code: int, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise error_for(code, message)
