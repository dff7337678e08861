"""The members of a classic group: its leader, the members still to join, and the protocols that all support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from broker.coordinator.group.classic.given_ids import GivenIds
from broker.coordinator.group.classic.member import Member
from broker.coordinator.group.classic.requests import JoinedMember, Protocols
from kafkalog.protocol.errors import ErrorCode


class Roster:
    """Members by their ids, in the order in which they came.

    Attributes:
        leader: id of the member that assigns, or None.
        pending: ids that were given out and have not joined yet (KIP-394).
        static: member ids by the instance ids of static members (KIP-345).
        awaiting_sync: ids of members that have joined this generation and not sent SyncGroup, in order.
    """

    __slots__ = ("_awaiting_join", "_members", "_supporters", "awaiting_sync", "leader", "pending", "static")

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._supporters: Counter[str] = Counter()
        self.leader: str | None = None
        self.pending = GivenIds()
        self.static: dict[str, str] = {}
        self.awaiting_sync: dict[str, None] = {}
        self._awaiting_join = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(list(self._members.values()))

    def __contains__(self, member_id: object) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def check(self, member_id: str, instance_id: str | None) -> ErrorCode | None:
        """Return the error of a request that names this member, or None if it is a member."""
        if instance_id is not None:
            known = self.static.get(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return None if member_id in self._members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining(self) -> int:
        """The number of members that wait for the next generation."""
        return self._awaiting_join

    @property
    def all_joined(self) -> bool:
        """Return whether every member has sent JoinGroup, and so has every client that was given a member id."""
        return self._awaiting_join == len(self._members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in ms."""
        return max((member.rebalance_timeout_ms for member in self._members.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a new member; the first one leads the group."""
        self._members[member.member_id] = member
        self._count(member, 1)
        if member.awaiting_join is not None:
            self._awaiting_join += 1
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, or an id that was given out; if it was the leader, the oldest other member leads."""
        member = self._members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
            if member.awaiting_join is not None:
                self._awaiting_join -= 1
            if member.instance_id is not None and self.static.get(member.instance_id) == member_id:
                del self.static[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self._members), None)
        self.pending.discard(member_id)
        self.awaiting_sync.pop(member_id, None)
        return member

    def rename(self, old: str, new: str) -> Member:
        """Give a returning static member a new id and return it; the member keeps its place and the leadership."""
        members = list(self._members.items())
        member = self._members[old]
        member.member_id = new
        self._members = {new if key == old else key: value for key, value in members}
        if member.instance_id is not None:
            self.static[member.instance_id] = new
        if self.leader == old:
            self.leader = new
        if old in self.awaiting_sync:
            del self.awaiting_sync[old]
            self.awaiting_sync[new] = None
        return member

    def update(self, member: Member, protocols: Protocols, session_timeout_ms: int, rebalance_timeout_ms: int) -> None:
        """Update a member with the fields of its new JoinGroup."""
        self._count(member, -1)
        member.protocols = protocols
        self._count(member, 1)
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def await_join(self, member: Member, token: object) -> object:
        """Set the JoinGroup request with which a member waits, None for no request; return the earlier one."""
        before = member.awaiting_join
        member.awaiting_join = token
        self._awaiting_join += (token is not None) - (before is not None)
        return before

    def elect(self) -> bool:
        """Choose a leader among the members that wait, preferably the current one; return whether there is one."""
        if self.leader is None:
            return False
        if self._members[self.leader].awaiting_join is not None:
            return True
        joined = next((member for member in self._members.values() if member.awaiting_join is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    def supports(self, protocols: Protocols) -> bool:
        """Return whether every member supports one of these protocols."""
        return any(self._supporters[name] == len(self._members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer, among those that all members support.

        If several have the same number of votes, it is the one that got a vote first.
        """
        candidates = {name for name, count in self._supporters.items() if count == len(self._members)}
        votes = Counter(member.vote(candidates) for member in self._members.values())
        return max(votes, key=votes.__getitem__)

    def joined_members(self, protocol: str) -> tuple[JoinedMember, ...]:
        """Return all members as the leader's JoinGroup response lists them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(protocol))
            for member in self._members.values()
        )

    def _count(self, member: Member, by: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._supporters[name] += by
            if not self._supporters[name]:
                del self._supporters[name]
