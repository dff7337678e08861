"""Join a group: JoinGroup, the leader's assignment, SyncGroup. Runs in a thread of the consumer."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.assignors import Assignor, CooperativeStickyAssignor, RebalanceProtocol, common_protocol
from kafkalog.client.consumer.assignors.base import Layout, Racks
from kafkalog.client.consumer.classic.heartbeat import Heartbeat
from kafkalog.client.consumer.classic.member import Member
from kafkalog.client.consumer.classic.protocol import (
    NEWEST,
    PROTOCOL_TYPE,
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalog.client.consumer.config import ConsumerConfig
from kafkalog.client.consumer.group.generation import Generation, Next
from kafkalog.client.consumer.group.group_requests import GroupRequests
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ClientError
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import KafkaError, error_for
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

logger = logging.getLogger(__name__)

_LEAVE_S = 5.0

Snapshot = Mapping[str, Sequence[Racks]]
"""The partitions by topic, each with the racks of its replicas; without racks where they do not matter."""


class AssignorError(ClientError):
    """An assignor broke a rule; the text says which."""


class JoinRefusedError(ClientError):
    """The member must join again; nothing is wrong with it. `todo` says when."""

    retriable = True

    def __init__(self, todo: Next, error: KafkaError) -> None:
        super().__init__(str(error))
        self.todo = todo
        self.error = error


class OutdatedJoinError(ClientError):
    """The member has left while it was joining, so no result is needed."""


@dataclass(frozen=True)
class Joined:
    """A generation that the member belongs to, and its assignment.

    The group's leader also knows the topics of all members, and their partitions at the time of its decision.
    """

    generation: Generation
    assignor: Assignor
    assignment: Assignment
    topics: frozenset[str]
    """The topics that the member subscribed to in its JoinGroup."""
    is_leader: bool = False
    group_topics: frozenset[str] = frozenset()
    snapshot: Snapshot | None = None


@dataclass(frozen=True)
class Wish:
    """The subscription with which a member joins."""

    topics: frozenset[str]
    owned: tuple[TopicPartition, ...]
    reason: str


class Joining:
    """Join the group. `member` is changed, under the lock, as answers come.

    Attributes:
        wish: The subscription at present; a join with another one is out of date.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        cluster: Cluster,
        requests: GroupRequests,
        member: Member,
        heartbeat: Heartbeat,
        monitor: Monitor,
    ) -> None:
        self._config, self._cluster, self._requests = config, cluster, requests
        self._member, self._heartbeat, self._monitor = member, heartbeat, monitor
        self.protocol = common_protocol(config.assignors)
        self.wish: Wish | None = None

    def join(self, wish: Wish) -> Joined:
        """Become a member of the next generation.

        Raises:
            JoinRefusedError: The join must be tried again.
            KafkaError: The coordinator reports an error that is not retriable.
        """
        answer = self._join(wish)
        generation = self._member.generation
        assignor = next((each for each in self._config.assignors if each.name == answer.protocol_name), None)
        if assignor is None:
            raise AssignorError(f"the coordinator chose assignor {answer.protocol_name!r}, which was not offered")
        is_leader = answer.leader == answer.member_id
        assignments: list[SyncGroupRequestAssignment] = []
        group_topics: frozenset[str] = frozenset()
        snapshot: Snapshot | None = None
        if is_leader:
            decided, group_topics, snapshot = self._decide(assignor, answer)
            assignments = [
                SyncGroupRequestAssignment(
                    member_id=member, assignment=encode_assignment(Assignment(tuple(partitions)))
                )
                for member, partitions in decided.items()
            ]
        mine = self._sync(generation, assignments)
        logger.info(
            "group %s: member %s of generation %d has %d partitions",
            self._requests.group_id,
            generation.member_id,
            generation.id,
            len(mine.partitions),
        )
        return Joined(generation, assignor, mine, wish.topics, is_leader, group_topics, snapshot)

    def _join(self, wish: Wish) -> JoinGroupResponse:
        again = True
        while True:
            with self._monitor.lock:
                self._check_wanted(wish)
                generation = self._member.generation
                self._member.join_sent()
            answer = self._requests.join(self._request(wish, generation))
            with self._monitor.lock:
                if wish is not self.wish:
                    break
                if not answer.error_code:
                    self._member.joined(answer.generation_id, answer.member_id, answer.protocol_name)
                    self._heartbeat.timer.reset(time.monotonic())
                    self._heartbeat.wake()
                    return answer
                todo = self._member.join_failed(answer.error_code, answer.member_id)
            if todo is Next.AGAIN and again:
                # The coordinator gave out a member id first, so that a lost answer leaves no member behind (KIP-394).
                again = False
                continue
            self._refuse(todo, error_for(answer.error_code))
        if answer.member_id and self._config.group_instance_id is None:
            # Without heartbeats the group would wait for this member until its session ends.
            self._requests.leave(answer.member_id, "the consumer left while it was joining", _LEAVE_S)
        self._check_wanted(wish)
        raise AssertionError

    def _check_wanted(self, wish: Wish) -> None:
        if wish is not self.wish:
            raise OutdatedJoinError("the consumer left the group while it was joining")

    def _refuse(self, todo: Next, error: KafkaError) -> None:
        named = type(error)(f"group {self._requests.group_id}: {error.message}")
        self._requests.note_failure(named)
        if todo is Next.FAIL:
            raise named
        raise JoinRefusedError(todo, named)

    def _request(self, wish: Wish, generation: Generation) -> JoinGroupRequest:
        config = self._config
        protocols = []
        for assignor in config.assignors:
            subscription = Subscription(
                tuple(wish.topics),
                assignor.user_data(wish.topics),
                wish.owned,
                generation.id,
                config.client_rack or None,
            )
            metadata = encode_subscription(subscription, NEWEST)
            protocols.append(JoinGroupRequestProtocol(name=assignor.name, metadata=metadata))
        return JoinGroupRequest(
            group_id=self._requests.group_id,
            session_timeout_ms=round(config.session_timeout * 1000),
            rebalance_timeout_ms=round(config.max_poll_interval * 1000),
            member_id=generation.member_id,
            group_instance_id=config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=protocols,
            reason=wish.reason,
        )

    def _sync(self, generation: Generation, assignments: list[SyncGroupRequestAssignment]) -> Assignment:
        request = SyncGroupRequest(
            group_id=self._requests.group_id,
            generation_id=generation.id,
            member_id=generation.member_id,
            group_instance_id=self._config.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=generation.protocol,
            assignments=assignments,
        )
        answer = self._requests.sync(request)
        with self._monitor.lock:
            if not answer.error_code:
                self._member.synced(generation)
                return decode_assignment(answer.assignment) if answer.assignment else Assignment(())
            todo = self._member.sync_failed(answer.error_code)
        self._refuse(todo, error_for(answer.error_code))
        raise AssertionError

    # The leader

    def _decide(
        self, assignor: Assignor, answer: JoinGroupResponse
    ) -> tuple[Mapping[str, Sequence[TopicPartition]], frozenset[str], Snapshot]:
        members = {
            member.member_id: decode_subscription(member.metadata, member.group_instance_id)
            for member in answer.members
        }
        topics = frozenset(topic for each in members.values() for topic in each.topics)
        deadline = time.monotonic() + self._config.client.request_timeout
        metadata = self._cluster.metadata(topics, refresh=True, deadline=deadline)
        if answer.skip_assignment:
            # This is a static leader that came back: all members keep what they have (KIP-814).
            return {}, topics, self.snapshot_of(metadata)
        decided = assignor.assign(layout_of(metadata), members)
        check_decision(assignor, decided, members, self.protocol)
        return decided, topics, self.snapshot_of(metadata)

    def snapshot_of(self, metadata: ClusterMetadata) -> Snapshot:
        """Return the partitions of topics; topics that cannot be described are left out.

        As in Java (`ConsumerCoordinator.MetadataSnapshot`), racks matter to a member that has one (`client.rack`).
        """
        layout = layout_of(metadata)
        if self._config.client_rack:
            return layout
        return {topic: [frozenset()] * len(partitions) for topic, partitions in layout.items()}


def layout_of(metadata: ClusterMetadata) -> Layout:
    """Return the partitions of topics and the racks of their replicas; topics that cannot be described are left out."""
    racks = {node_id: broker.rack for node_id, broker in metadata.brokers.items()}
    return {
        topic.name: [
            frozenset(rack for replica in topic.partitions[number].replicas if (rack := racks.get(replica)) is not None)
            for number in sorted(topic.partitions)
        ]
        for topic in metadata.topics.values()
        if topic.partitions and not topic.error_code
    }


def check_decision(
    assignor: Assignor,
    decided: Mapping[str, Sequence[TopicPartition]],
    members: Mapping[str, Subscription],
    protocol: RebalanceProtocol,
) -> None:
    """Check an assignor's decision.

    Raises:
        AssignorError: Partitions go to unknown members; or, in a cooperative rebalance, they change hands in one step.
            Their owners must give them up first (KIP-429).
    """
    if strangers := decided.keys() - members.keys():
        raise AssignorError(f"assignor {assignor.name} assigns partitions to {sorted(strangers)}, who are no members")
    if protocol is not RebalanceProtocol.COOPERATIVE or isinstance(assignor, CooperativeStickyAssignor):
        return
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, subscription in members.items():
        partitions = frozenset(decided.get(member, ()))
        added |= partitions.difference(subscription.owned)
        revoked |= frozenset(subscription.owned) - partitions
    if moved := added & revoked:
        raise AssignorError(
            f"assignor {assignor.name} gives {sorted(moved)} to new members while others still own them, which a "
            "cooperative rebalance does not allow"
        )
