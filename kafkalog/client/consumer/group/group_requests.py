"""The requests of a group's member. They block, so threads of the consumer send them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.generation import Generation
from kafkalog.client.coordinators import Coordinators, CoordinatorType
from kafkalog.client.errors import ClientError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.metadata import Broker
from kafkalog.client.network.connection import Connection
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    FencedInstanceIdError,
    UnknownTopicOrPartitionError,
    error_for,
)
from kafkalog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.releases import OFFSETS_OF_GROUPS

_MEMBER_EPOCHS = 9
"""OffsetFetch 9 checks member epochs."""
_REGEX = 1
"""ConsumerGroupHeartbeat 1 subscribes by regular expressions."""
_OUTDATED = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class CommitAnswer(NamedTuple):
    """The first error of a commit's partitions and its partition; 0 and None where there is no error.

    Brokers answer for partitions that they do not know without asking the coordinator. The coordinator's error for the
    others counts as the first.
    """

    error_code: int
    partition: TopicPartition | None = None
    unknown: Collection[TopicPartition] = frozenset()
    """The partitions that the broker does not know."""


class OutdatedMemberError(ClientError):
    """The coordinator knows the member by another epoch, or not at all; the next heartbeat will find out which."""

    retriable = True


class GroupRequests:
    """Send one member's requests to its coordinator.

    JoinGroup and SyncGroup are answered late, so they have a connection of their own, for one thread. All other
    requests share the cluster's connections, and are safe for use by several threads.
    """

    def __init__(self, config: ConsumerConfig, cluster: Cluster, coordinators: Coordinators) -> None:
        assert config.group_id is not None
        self._config, self._cluster, self._coordinators = config, cluster, coordinators
        self.group_id = config.group_id
        self._connection: Connection | None = None
        self._closed = False

    def fenced(self) -> FencedInstanceIdError:
        """Make the error for a member whose `group.instance.id` another member has taken."""
        return FencedInstanceIdError(
            f"group {self.group_id}: another member has group.instance.id {self._config.group_instance_id}, and this "
            "one is not in the group any more; close it, or unsubscribe and subscribe to take the id back"
        )

    def note_failure(self, error: BaseException) -> None:
        """Note that a request failed: its error may mean that the coordinator has moved."""
        self._coordinators.notice(CoordinatorType.GROUP, self.group_id, error)

    def forget(self) -> None:
        """Forget the coordinator, so that it is looked up before its next use.

        A JoinGroup or SyncGroup that it was sent fails, because its answer may never come.
        """
        self._coordinators.forget(CoordinatorType.GROUP, self.group_id)
        self.interrupt()

    # Requests with late answers

    def join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        """Send JoinGroup; wait for the group's other members to join, up to the rebalance timeout."""
        patience = max(self._config.client.request_timeout, self._config.max_poll_interval + 5.0)
        answer: JoinGroupResponse = self._wait_for(request, patience)
        return answer

    def sync(self, request: SyncGroupRequest) -> SyncGroupResponse:
        """Send SyncGroup; wait for the leader's assignment, up to `request.timeout.ms` as in Java."""
        answer: SyncGroupResponse = self._wait_for(request, self._config.client.request_timeout)
        return answer

    def _wait_for(self, request: Request, patience: float) -> Any:
        deadline = time.monotonic() + self._config.client.request_timeout
        broker = self._coordinators.find_now(CoordinatorType.GROUP, self.group_id, deadline=deadline)
        connection = self._connection
        if connection is None or connection.closed or connection.readable():
            if connection is not None:
                connection.close()
            connection = self._connection = self._cluster.connect(broker)
        elif connection.address != f"{broker.host}:{broker.port}":
            connection.close()
            connection = self._connection = self._cluster.connect(broker)
        if self._closed:
            connection.close()
            raise ConnectionFailedError("the consumer is being closed")
        return connection.request(request, timeout=patience)

    @property
    def has_joined(self) -> bool:
        """Return whether there is a connection of JoinGroup and SyncGroup."""
        return self._connection is not None

    def interrupt(self) -> None:
        """Make a JoinGroup or SyncGroup fail that is under way in another thread."""
        connection = self._connection
        if connection is not None and not connection.closed:
            connection.interrupt()

    def close(self) -> None:
        """Send nothing more. A request under way fails."""
        self._closed = True
        self.interrupt()

    def disconnect(self) -> None:
        """Close the connection of JoinGroup and SyncGroup. Only the thread that sends these may call it."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Requests with prompt answers

    def heartbeat(self, generation: Generation) -> int:
        """Send a heartbeat; return its error code."""
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
        )
        timeout = min(self._config.client.request_timeout, self._config.session_timeout)
        answer: HeartbeatResponse = self._send(request, timeout)
        return answer.error_code

    def group_heartbeat(self, request: ConsumerGroupHeartbeatRequest, timeout: float) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat of the consumer protocol.

        Raises:
            UnsupportedVersionError: The broker does not know that protocol.
        """
        least = 0 if request.subscribed_topic_regex is None else _REGEX
        answer: ConsumerGroupHeartbeatResponse = self._send(request, timeout, min_version=least)
        return answer

    def leave(self, member_id: str, reason: str, timeout: float) -> None:
        """Leave the group, so that it need not wait for the session to end.

        Raises:
            KafkaError: The coordinator reports it.
        """
        member = MemberIdentity(member_id=member_id, reason=reason)
        answer: LeaveGroupResponse = self._send(LeaveGroupRequest(group_id=self.group_id, members=[member]), timeout)
        for code in (answer.error_code, *(member.error_code for member in answer.members)):
            if code:
                raise error_for(code, f"leaving group {self.group_id}")

    def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], generation: Generation, timeout: float
    ) -> CommitAnswer:
        """Commit once."""
        topics: dict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for tp, (offset, epoch, metadata) in sorted(offsets.items()):
            topics[tp.topic].append(
                OffsetCommitRequestPartition(
                    partition_index=tp.partition,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id if generation.valid else None,
            topics=[OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        answer: OffsetCommitResponse = self._send(request, timeout)
        errors = {
            TopicPartition(topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
            if each.error_code
        }
        unknown = frozenset(tp for tp, code in errors.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not errors:
            return CommitAnswer(0)
        first = min(errors, key=unknown.__contains__)
        return CommitAnswer(errors[first], first, unknown)

    def committed(
        self, partitions: Collection[TopicPartition], deadline: float, member: Callable[[], Generation]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Read the committed offsets of these partitions; wait for transactions that commit some of them (KIP-447).

        `member` is called at each try. It returns the identity of a member of the consumer protocol, or
        NO_GENERATION.
        """

        def attempt(broker: Broker, timeout: float) -> dict[TopicPartition, OffsetAndMetadata]:
            generation = member()
            request, versions = self._fetch_request(partitions, generation)
            answer: OffsetFetchResponse = self._cluster.request_to(
                broker.node_id, request, timeout=timeout, min_version=versions[0], max_version=versions[1]
            )
            return self._offsets_of(answer, generation)

        return self._coordinators.run(CoordinatorType.GROUP, self.group_id, attempt, deadline=deadline)

    def _fetch_request(
        self, partitions: Collection[TopicPartition], generation: Generation
    ) -> tuple[OffsetFetchRequest, tuple[int, int]]:
        topics: dict[str, list[int]] = defaultdict(list)
        for tp in sorted(partitions):
            topics[tp.topic].append(tp.partition)
        if not generation.valid:
            asked = [OffsetFetchRequestTopic(name=name, partition_indexes=parts) for name, parts in topics.items()]
            request = OffsetFetchRequest(group_id=self.group_id, topics=asked, require_stable=True)
            return request, (0, OFFSETS_OF_GROUPS.version - 1)
        group = OffsetFetchRequestGroup(
            group_id=self.group_id,
            member_id=generation.member_id,
            member_epoch=generation.id,
            topics=[OffsetFetchRequestTopics(name=name, partition_indexes=parts) for name, parts in topics.items()],
        )
        return OffsetFetchRequest(groups=[group], require_stable=True), (_MEMBER_EPOCHS, _MEMBER_EPOCHS)

    def _offsets_of(
        self, answer: OffsetFetchResponse, generation: Generation
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        of_all = answer.groups[0] if answer.groups else answer
        if of_all.error_code:
            error = error_for(of_all.error_code, f"reading offsets of group {self.group_id}")
            raise OutdatedMemberError(str(error)) if generation.valid and error.code in _OUTDATED else error
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for topic in of_all.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name, each.partition_index)
                if each.error_code and error_for(each.error_code).code != UnknownTopicOrPartitionError.code:
                    raise error_for(each.error_code, f"reading the offset of {tp} of group {self.group_id}")
                if each.committed_offset >= 0:
                    found[tp] = OffsetAndMetadata(
                        each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                    )
        return found

    def _send(self, request: Request, timeout: float, max_version: int | None = None, min_version: int = 0) -> Any:
        deadline = time.monotonic() + timeout
        try:
            broker = self._coordinators.find_now(CoordinatorType.GROUP, self.group_id, deadline=deadline)
            left = max(deadline - time.monotonic(), 0.001)
            return self._cluster.request_to(
                broker.node_id, request, timeout=left, max_version=max_version, min_version=min_version
            )
        except (ConnectionFailedError, ClientTimeoutError) as error:
            self.note_failure(error)
            raise
