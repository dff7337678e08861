"""Replicas: elect leaders, reassign partitions to brokers, and move replicas between a broker's log directories.

Calls that name several partitions return an outcome for each: None, or the broker's error. An error of one partition
does not keep the others from being done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalog.client.admin.connected import Connected
from kafkalog.client.admin.every_broker import ask_each_broker
from kafkalog.client.admin.replicas.explanations import ExplainedPartition, explain_partition
from kafkalog.client.errors import left_out
from kafkalog.client.outcomes import values_of
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
"""The error of each partition, or None."""


class ElectionType(IntEnum):
    """The kind of replica that is elected: the preferred leader, or any live replica even if it is not in sync."""

    PREFERRED = 0
    UNCLEAN = 1


class Reassignment(NamedTuple):
    """A reassignment under way: the brokers that hold the partition, the new ones, and those that will go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaOnBroker(NamedTuple):
    """A partition's replica on one broker."""

    partition: TopicPartition
    broker: int


class ReplicaInfo(NamedTuple):
    """A replica in a log directory."""

    size: int
    """Its size in bytes."""
    offset_lag: int
    """The number of offsets that it is behind the high watermark. For the copy that a move makes (`is_future`): behind
    the replica that it will replace. -1 where it is unknown."""
    is_future: bool
    """True if it is the copy that a move to this directory makes."""


class LogDirInfo(NamedTuple):
    """A log directory of a broker: its `error`, or the replicas in it.

    `total_bytes` and `usable_bytes` are those of its volume, -1 where the broker does not report them.
    """

    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int
    usable_bytes: int


class ReplicaAdmin(Connected):
    """The part of `Admin` that administers replicas; also usable by itself.

    Calls wait up to `default.api.timeout.ms` and then raise ClientTimeoutError.
    """

    # Leaders

    def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None = None, kind: ElectionType = ElectionType.PREFERRED
    ) -> Outcomes:
        """Elect leaders for these partitions, or (None) for all partitions.

        An outcome is None, ElectionNotNeededError (left out where all partitions were asked for),
        PreferredLeaderNotAvailableError, EligibleLeadersNotAvailableError or UnknownTopicOrPartitionError.

        Raises:
            UnsupportedVersionError: Brokers older than Kafka 2.4 are asked for an unclean election.
        """
        topics = wanted = None
        if partitions is not None:
            wanted = _by_topic(partitions)
            topics = [TopicPartitions(topic=name, partitions=ids) for name, ids in wanted.items()]
            if not topics:
                return {}

        def attempt(retry: Retry) -> Outcomes:
            request = ElectLeadersRequest(
                election_type=kind, topic_partitions=topics, timeout_ms=self._timeout_ms(retry)
            )
            response: ElectLeadersResponse = self.cluster.request_controller(request, deadline=retry.deadline)
            _raise(response.error_code)
            found = {
                TopicPartition(topic.topic, row.partition_id): _outcome(row.error_code, row.error_message)
                for topic in response.replica_election_results
                for row in topic.partition_result
            }
            return _unanswered(wanted or {}) | found

        return self.cluster.on_controller(attempt)

    def explain(self, partition: TopicPartition) -> ExplainedPartition:
        """Tell why a partition changed, and how far its followers are; see `explanations.explain_partition`."""
        return explain_partition(self.cluster, partition)

    # Brokers

    def alter_partition_reassignments(self, replicas: Mapping[TopicPartition, Sequence[int] | None]) -> Outcomes:
        """Reassign partitions to these brokers, the preferred leader first; None cancels a reassignment under way.

        An outcome is None once the reassignment has begun, InvalidReplicaAssignmentError, NoReassignmentInProgressError
        or UnknownTopicOrPartitionError.
        """
        if not replicas:
            return {}
        wanted = _by_topic(replicas)
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
            for name, indexes in wanted.items()
        ]

        def attempt(retry: Retry) -> Outcomes:
            request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=self._timeout_ms(retry))
            response: AlterPartitionReassignmentsResponse = self.cluster.request_controller(
                request, deadline=retry.deadline
            )
            _raise(response.error_code, response.error_message)
            found = {
                TopicPartition(topic.name, row.partition_index): _outcome(row.error_code, row.error_message)
                for topic in response.responses
                for row in topic.partitions
            }
            return _unanswered(wanted) | found

        return self.cluster.on_controller(attempt)

    def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """List the reassignments under way, of these partitions or (None) of all partitions."""
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
        """Move replicas to other log directories (absolute paths) of the brokers that hold them.

        An outcome is None once the move has begun, LogDirNotFoundError, KafkaStorageError for a directory that is
        offline, or ReplicaNotAvailableError or UnknownTopicOrPartitionError where the broker does not hold the
        partition; the broker then remembers the directory for a replica that it may get. `describe_log_dirs` shows how
        far a move is.
        """
        outcomes: dict[ReplicaOnBroker, KafkaError | None] = {
            replica: left_out(f"partition {replica.partition}") for replica in directories
        }
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
        return {replica: outcomes[replica] for replica in directories}

    def describe_log_dirs(self, brokers: Iterable[int] | None = None) -> dict[int, dict[str, LogDirInfo]]:
        """Describe the log directories of these brokers by path, with the replicas in them.

        None stands for all live brokers. One that dies before it has answered is left out.

        Raises:
            ClientTimeoutError: A broker has not answered in time.
        """
        return values_of(self.describe_log_dirs_each(brokers))

    def describe_log_dirs_each(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, dict[str, LogDirInfo] | Exception]:
        """Describe log directories as `describe_log_dirs` does; return for each broker its directories, or its error.

        A broker that does not answer does not keep those of the others from being described.

        Raises:
            ClientTimeoutError: No broker has answered.
        """
        retry = Retry(self.cluster.config)

        def ask(node_id: int) -> dict[str, LogDirInfo]:
            response: DescribeLogDirsResponse = self.cluster.request_to(
                node_id, DescribeLogDirsRequest(topics=None), timeout=retry.request_timeout
            )
            _raise(response.error_code)
            return {
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

        return ask_each_broker(self.cluster, retry, ask, None if brokers is None else sorted(set(brokers)))

    # Inside

    def _ask(self, node_id: int, request: Request, retry: Retry) -> Any:
        """Send a request to a broker; send it again where the broker does not answer."""
        self.cluster.metadata([], deadline=retry.deadline, refresh=True)
        return retry.run(lambda: self.cluster.request_to(node_id, request, timeout=retry.request_timeout))

    def _timeout_ms(self, retry: Retry) -> int:
        return round(min(retry.left, self.cluster.config.request_timeout) * 1000)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(set(partitions)):
        grouped[tp.topic].append(tp.partition)
    return grouped


def _unanswered(wanted: Mapping[str, Sequence[int]]) -> Outcomes:
    """Return the outcomes of partitions, by topic, before an answer has said more of them."""
    partitions = [TopicPartition(name, index) for name, indexes in wanted.items() for index in indexes]
    return {tp: left_out(f"partition {tp}") for tp in partitions}


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def _outcome(code: int, message: str | None = None) -> KafkaError | None:
    return None if code == ErrorCode.NONE else error_for(code, message)


def _raise(code: int, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise error_for(code, message)
