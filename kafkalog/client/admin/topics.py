"""Topics: create, delete, describe and grow them, and delete their oldest records.

Requests that change topics go to the controller. An error that the broker reports is raised, with the broker's own
words where it gives some. Where a call names several topics and some of them fail, the others are done all the same.
The error of the first topic that failed is raised, and the errors of further ones are logged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafkalog.client.admin.unraised import log_unraised
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import about, left_out
from kafkalog.client.metadata import TopicMetadata
from kafkalog.client.network.at_once import ask_at_once
from kafkalog.client.offsets import list_offsets, list_offsets_each
from kafkalog.client.outcomes import ask_until_final, values_of
from kafkalog.client.retry import Retry
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.errors import ErrorCode, KafkaError, NotControllerError
from kafkalog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkalog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


class NewTopic(NamedTuple):
    """Describe a topic to create; -1 partitions or replicas stands for the broker's default.

    `assignments` gives the replicas of each partition, the preferred leader first. It replaces the two numbers.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] | None = None


class TopicAdmin:
    """The part of `Admin` that administers topics, over the connections of `cluster`."""

    def __init__(self, cluster: Cluster, config: ClientConfig | None = None) -> None:
        self._cluster = cluster
        self._config = config or cluster.config

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; with `validate_only`, only find out whether they could be created.

        Raises:
            TopicAlreadyExistsError, InvalidTopicError, InvalidReplicationFactorError, InvalidConfigError: And other
                errors that the broker reports.
        """
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.assignments else topic.num_partitions,
                replication_factor=-1 if topic.assignments else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in (topic.assignments or {}).items()
                ],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ]
        self._change_topics(
            wanted,
            lambda left, retry: CreateTopicsRequest(
                topics=left, timeout_ms=self._timeout_ms(retry), validate_only=validate_only
            ),
            lambda response: response.topics,
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all of their records.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            KafkaError: The broker reports another error.
        """
        self._change_topics(
            [DeleteTopicState(name=name) for name in names],
            lambda left, retry: DeleteTopicsRequest(topics=left, timeout_ms=self._timeout_ms(retry)),
            lambda response: response.responses,
        )

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Give each topic `counts[name]` partitions in all.

        Args:
            counts: The new number of partitions by topic.
            assignments: The replicas of each new partition, for some of the topics.
            validate_only: Change nothing, only find out whether it could be done.

        Raises:
            InvalidPartitionsError: The topic has as many partitions already, or more.
        """
        wanted = [
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=[CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments[name]]
                if assignments and name in assignments
                else None,
            )
            for name, count in counts.items()
        ]
        self._change_topics(
            wanted,
            lambda left, retry: CreatePartitionsRequest(
                topics=left, timeout_ms=self._timeout_ms(retry), validate_only=validate_only
            ),
            lambda response: response.results,
        )

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """List the names of all topics, sorted; with `internal`, also the cluster's internal topics."""
        topics = self._cluster.metadata(refresh=True).topics.values()
        return sorted(topic.name for topic in topics if internal or not topic.is_internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Describe partitions, leaders and replicas of topics (None: all topics).

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            KafkaError: The broker reports another error.
        """
        return values_of(self.describe_topics_each(names))

    def describe_topics_each(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata | KafkaError]:
        """Describe topics as `describe_topics` does; return each topic's description, or its error."""
        described: dict[str, TopicMetadata | KafkaError] = {}
        for name, topic in self._cluster.metadata(names, refresh=True).topics.items():
            fails = topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
            described[name] = about(topic.error_code, f"topic {name}") if fails else topic
        return described

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find the offset of each partition's first record that is not older than the timestamp; -1 stands for none.

        `EARLIEST`, `LATEST`, `MAX_TIMESTAMP`, `EARLIEST_LOCAL` and `LATEST_TIERED` of `kafkalog.client.types` stand for
        other offsets.

        Raises:
            UnknownTopicOrPartitionError: There is no such partition.
            UnsupportedVersionError: The leader does not know this special timestamp.
            ClientTimeoutError: A leader could not be asked in time.
        """
        return list_offsets(self._cluster, timestamps, isolation_level, self._retry().deadline)

    def list_offsets_each(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp | Exception]:
        """Find offsets as `list_offsets` does; return each partition's offset, or its error."""
        return list_offsets_each(self._cluster, timestamps, isolation_level, self._retry().deadline)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records before the given offsets (-1: all records); return the partitions' new first offsets.

        Raises:
            OffsetOutOfRangeError: An offset is beyond the high watermark.
            PolicyViolationError: The topic is compacted, and its cleanup policy does not delete.
            UnknownTopicOrPartitionError: There is no such partition.
        """
        return values_of(self.delete_records_each(before))

    def delete_records_each(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | Exception]:
        """Delete records as `delete_records` does; return each partition's new first offset, or its error.

        An error of one partition does not keep the records of others from being deleted, and theirs are deleted once:
        -1 stands for another offset later. ClientTimeoutError is the error where a leader could not be asked in time.
        """
        retry = self._retry()

        def ask(left: Collection[TopicPartition]) -> Mapping[TopicPartition, int | Exception]:
            return self._delete_records({tp: before[tp] for tp in left}, retry)

        found: dict[TopicPartition, int | Exception] = {}
        for outcomes in ask_until_final(self._cluster, before.keys(), ask, retry):
            found |= outcomes
        return {tp: found[tp] for tp in before}

    def _retry(self) -> Retry:
        return Retry(self._config)

    def _timeout_ms(self, retry: Retry) -> int:
        return round(min(retry.left, self._config.request_timeout) * 1000)

    def _change_topics(
        self, topics: list[Any], build: Callable[[list[Any], Retry], Any], results: Callable[[Any], Iterable[Any]]
    ) -> None:
        """Send changes to the controller; repeat those that fail with a retriable error; raise the first failure."""
        if not topics:
            return
        names = [topic.name for topic in topics]
        left = {topic.name: topic for topic in topics}
        failures: dict[str, Exception] = {}

        def attempt(retry: Retry) -> None:
            response = self._cluster.request_controller(build(list(left.values()), retry), deadline=retry.deadline)
            again: Exception | None = None
            unanswered = set(left)
            for result in results(response):
                unanswered.discard(result.name)
                if result.error_code == ErrorCode.NONE:
                    left.pop(result.name, None)
                    continue
                error = about(result.error_code, f"topic {result.name}", result.error_message)
                if error.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    again = error
                else:
                    left.pop(result.name, None)
                    failures[result.name] = error
            if not isinstance(again, NotControllerError):
                # As in Java (KafkaAdminClient.completeUnrealizedFutures).
                for name in unanswered:
                    del left[name]
                    failures[name] = left_out(f"topic {name}")
            if again is not None:
                raise again

        try:
            self._cluster.on_controller(attempt)
        except Exception:
            log_unraised(failures.values())
            raise
        finally:
            self._cluster.forget(names)
        failed = [failures[name] for name in names if name in failures]
        if failed:
            log_unraised(failed[1:])
            raise failed[0]

    def _delete_records(
        self, left: Mapping[TopicPartition, int], retry: Retry
    ) -> dict[TopicPartition, int | Exception]:
        """Ask each leader once; return the new first offset or the error of each partition."""
        answers: dict[TopicPartition, int | Exception] = {}
        by_leader: dict[int, dict[str, list[DeleteRecordsPartition]]] = defaultdict(lambda: defaultdict(list))
        for tp, leader in self._cluster.leaders_now(left.keys(), retry.deadline).items():
            if isinstance(leader, Exception):
                answers[tp] = leader
                continue
            wanted = DeleteRecordsPartition(partition_index=tp.partition, offset=left[tp])
            by_leader[leader.broker.node_id][tp.topic].append(wanted)

        def ask(node_id: int) -> DeleteRecordsResponse:
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in by_leader[node_id].items()],
                timeout_ms=self._timeout_ms(retry),
            )
            response: DeleteRecordsResponse = self._cluster.request_to(node_id, request, timeout=retry.request_timeout)
            return response

        for node_id, response in ask_at_once(by_leader, ask).items():
            topics = by_leader[node_id]
            asked = [TopicPartition(name, each.partition_index) for name, parts in topics.items() for each in parts]
            if isinstance(response, Exception):
                answers |= dict.fromkeys(asked, response)
                continue
            # As in Java (DeleteRecordsHandler).
            answers |= {tp: left_out(f"partition {tp}") for tp in asked}
            for topic in response.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code == ErrorCode.NONE:
                        answers[tp] = each.low_watermark
                    else:
                        answers[tp] = about(each.error_code, f"partition {tp}")
        return answers
