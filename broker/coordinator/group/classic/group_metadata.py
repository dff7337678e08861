"""State, generation and protocol of a classic group. The log stores them and the members.

| state               | the group waits for                               | next state                                |
|---------------------|---------------------------------------------------|-------------------------------------------|
| Empty               | a first member                                    | PreparingRebalance                        |
| PreparingRebalance  | every member to join, at most for the rebalance   | CompletingRebalance; Empty if no member   |
|                     | timeout; an empty group, for more members         | is left                                   |
| CompletingRebalance | the leader's assignments, until they are stored   | Stable; PreparingRebalance, when members  |
|                     |                                                   | join, leave or change                     |
| Stable              | nothing                                           | PreparingRebalance                        |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from enum import Enum

from broker.coordinator.group import records
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.roster import Roster
from broker.coordinator.group.membership import Moment, Retention
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.coordinator_records import GroupMetadataValue, MemberMetadata
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE, subscribed_topics
from kafkalog.protocol.errors import NonEmptyGroupError

MOST_TOPICS = 200_000
"""The most topics that a group reads of its members' subscriptions; a topic counts once per member that names it."""


class ClassicGroupState(Enum):
    """The states of a classic group; the values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class GroupMetadata:
    """The state, generation and protocol of one group.

    Attributes:
        state_since_ms: when the group entered its state, ms since the epoch; None if a release of Apache
            Kafka before 2.1 stored it.
        generation: counts the rebalances.
        protocol_type: the protocol type that its members use, or last used.
        protocol_name: the assignor of this generation, or None.
        subscribed: topics of its members, or None if they are unknown.
    """

    __slots__ = (
        "_is_restored", "generation", "group_id", "protocol_name", "protocol_type", "state", "state_since_ms",
        "subscribed",
    )  # fmt: skip

    def __init__(self, group_id: str, now: Moment) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.state_since_ms: int | None = now.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.subscribed: frozenset[str] | None = None
        self._is_restored = False
        """It has a record, also if it has no generation: Apache Kafka stores a group when its first member joins."""

    def become(self, state: ClassicGroupState, now: Moment) -> None:
        self.state = state
        self.state_since_ms = now.wall_ms

    def select_protocol(self, members: Roster) -> None:
        """Select the protocol that most members prefer, or none if there are no members."""
        self.protocol_name = members.select_protocol() if len(members) else None
        self.learn_topics(members)

    def learn_topics(self, members: Iterable[Member]) -> None:
        """Collect the topics that the members are subscribed to."""
        self.subscribed = _topics(members, self.protocol_type, self.protocol_name)

    def consumed(self, topics: Set[str]) -> Set[str]:
        """See `membership.Membership`."""
        if self.state is ClassicGroupState.EMPTY:
            return frozenset()
        if self.protocol_type != PROTOCOL_TYPE:
            raise NonEmptyGroupError
        return topics if self.subscribed is None else topics & self.subscribed

    def retention(self) -> Retention | None:
        """See `membership.Membership`."""
        if self.protocol_type is None:
            return Retention(None)
        if self.state is ClassicGroupState.EMPTY:
            return Retention(self.state_since_ms)
        is_stable = self.state is ClassicGroupState.STABLE
        if is_stable and self.protocol_type == PROTOCOL_TYPE and self.subscribed is not None:
            return Retention(None, self.subscribed)
        return None

    # -- records

    def restore(self, value: GroupMetadataValue) -> None:
        """Restore a group from its record, except for its members: see `stored_members`."""
        self._is_restored = True
        self.generation = value.generation
        self.protocol_type = value.protocol_type or None
        self.protocol_name = value.protocol
        since = value.current_state_timestamp
        self.state_since_ms = None if since == records.NO_TIMESTAMP else since

    def record(self, members: Roster, assignments: Mapping[str, bytes] | None = None) -> StateRecord:
        """Return the group's record, as it is to be stored now.

        Args:
            assignments: of every member, by id, instead of the current ones.
        """
        protocol = self.protocol_name or ""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=members.leader,
            current_state_timestamp=records.NO_TIMESTAMP if self.state_since_ms is None else self.state_since_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(protocol),
                    assignment=member.assignment if assignments is None else assignments[member.member_id],
                )
                for member in members
            ],
        )
        return StateRecord(records.group_metadata_key(self.group_id), records.group_metadata_value(value))

    def tombstones(self) -> list[StateRecord]:
        """Return the tombstones of the group; a group that only has committed offsets has no record."""
        if self.generation <= 0 and not self._is_restored:
            return []
        return [StateRecord(records.group_metadata_key(self.group_id), None)]


def stored_members(value: GroupMetadataValue) -> Iterator[Member]:
    """Yield the members of a group that was stored."""
    for stored in value.members:
        rebalance = stored.rebalance_timeout
        yield Member(
            stored.member_id,
            stored.group_instance_id,
            stored.client_id,
            stored.client_host,
            stored.session_timeout,
            stored.session_timeout if rebalance < 0 else rebalance,
            value.protocol_type,
            ((value.protocol or "", stored.subscription),),
            stored.assignment,
        )


def _topics(members: Iterable[Member], protocol_type: str | None, protocol_name: str | None) -> frozenset[str] | None:
    """Return the topics to which members are subscribed, or None if they are unknown.

    They are unknown if a subscription cannot be parsed, or if there are more than `MOST_TOPICS`.
    """
    if protocol_type != PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    left = MOST_TOPICS
    for member in members:
        found = None if protocol_name is None else subscribed_topics(member.metadata(protocol_name), left)
        if found is None:
            return None
        left -= len(found)
        topics |= found
    return frozenset(topics)
