"""The roles of a partition on this broker: leader and follower.

A role does not use logs, clocks or sockets. Its methods take offsets and times and return offsets and decisions, which
`Partition` applies to its log. Each change of role makes a new object, so that state of an old leader epoch cannot
affect a later one.
"""

from __future__ import annotations

from broker.metadata.model import PartitionState
from broker.replica.isr import rules
from broker.replica.isr.rules import UNKNOWN_BROKER_EPOCH, FollowerState
from kafkalog.protocol.errors import NotLeaderOrFollowerError


class Leader:
    """The role of a broker that leads the partition.

    Attributes:
        broker_id: the id of this broker.
        epoch: the leader epoch.
        partition_epoch: the version of the partition's state, as far as it is known; each change increments it.
        since: the epoch from which on this broker is known to have led in every epoch.
        epoch_start: the log end offset at which `epoch` began.
        replicas: the brokers that hold the partition, the preferred leader first.
        isr: the in-sync replicas that the controller has confirmed.
        maximal_isr: `isr` and the replicas whose joining is proposed but not confirmed. Records have to reach all of
            them before they are acknowledged, so that the members of whichever set the controller has stored have them.
        proposed: the ISR that was proposed to the controller without an answer yet, or None.
        followers: what is known about each other replica.
    """

    __slots__ = (
        "broker_id",
        "epoch",
        "epoch_start",
        "followers",
        "isr",
        "maximal_isr",
        "partition_epoch",
        "proposed",
        "replicas",
        "since",
    )

    def __init__(
        self,
        broker_id: int,
        state: PartitionState,
        since: int,
        epoch_start: int,
        followers: dict[int, FollowerState],
    ) -> None:
        isr = frozenset(state.isr)
        self.broker_id = broker_id
        self.epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.since = since
        self.epoch_start = epoch_start
        self.replicas = state.replicas
        self.isr = isr
        self.maximal_isr = isr
        self.proposed: frozenset[int] | None = None
        self.followers = followers

    @property
    def leader(self) -> int:
        return self.broker_id

    def is_superseded_by(self, state: PartitionState) -> bool:
        """Return whether `state` is newer: of a later epoch, or of this one with another ISR or other replicas."""
        if state.leader_epoch != self.epoch or state.leader != self.broker_id:
            return state.leader_epoch > self.epoch
        if state.partition_epoch != self.partition_epoch:
            return state.partition_epoch > self.partition_epoch
        return frozenset(state.isr) != self.isr or state.replicas != self.replicas

    def high_watermark(
        self,
        current: int,
        log_end: int,
        min_insync: int,
        now_ms: int,
        max_lag_ms: int,
        alive: frozenset[int] | None = None,
    ) -> int:
        """Return the high watermark, given what is known about the replicas; never below `current`.

        It does not advance while the ISR is smaller than `min_insync`, whatever acks the producers ask for. Records
        that consumers have read must not be lost by the failure of fewer brokers than the topic's owner allows for.

        Args:
            alive: the live brokers, which may join the ISR; None for all of them.
        """
        if not self.followers:
            return log_end
        if len(self.isr) < min_insync:
            return current
        found = rules.high_watermark(log_end, self.followers, self.maximal_isr, now_ms, max_lag_ms, alive)
        return max(current, found)

    @property
    def broker_epochs(self) -> dict[int, int]:
        """The epochs of the followers' registrations at their last fetches; UNKNOWN_BROKER_EPOCH if not known."""
        return {replica: follower.broker_epoch for replica, follower in self.followers.items()}

    def fetched(
        self,
        replica: int,
        offset: int,
        log_start_offset: int,
        log_end: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> None:
        """Note a fetch of a follower from `offset`, which arrived when the log ended at `log_end`.

        Raises:
            KeyError: the broker has no replica of the partition.
            NotLeaderOrFollowerError: the fetch is of an earlier life of the follower than the last one was.
        """
        follower = self.followers[replica]
        if UNKNOWN_BROKER_EPOCH < broker_epoch < follower.broker_epoch:
            raise NotLeaderOrFollowerError
        self.followers[replica] = follower.fetched(offset, log_start_offset, log_end, now_ms, broker_epoch)

    def stayed(self, replica: int, offset: int, at_ms: int) -> None:
        """Note that a follower that was at the log's end, `offset`, was still there at a later time."""
        follower = self.followers.get(replica)
        if follower is not None and follower.log_end_offset == offset:
            self.followers[replica] = follower.stayed(at_ms)

    def expanded_isr(self, replica: int, high_watermark: int) -> frozenset[int] | None:
        """Return the ISR with a follower that has caught up, to propose to the controller; None for no change."""
        if self.proposed is not None or replica in self.isr:
            return None
        if not rules.may_join(self.followers[replica], high_watermark, self.epoch_start):
            return None
        return self.isr | {replica}

    def shrunk_isr(self, log_end: int, now_ms: int, max_lag_ms: int) -> frozenset[int] | None:
        """Return the ISR without the followers that fell behind, to propose to the controller; None for no change."""
        if self.proposed is not None:
            return None
        gone = rules.out_of_sync(self.isr, self.broker_id, self.followers, log_end, now_ms, max_lag_ms)
        return self.isr - gone if gone else None

    def propose(self, isr: frozenset[int]) -> None:
        """Remember that `isr` is proposed to the controller. Nothing else is proposed until it answers."""
        self.proposed = isr
        self.maximal_isr = self.isr | isr

    def confirm(self, isr: frozenset[int], partition_epoch: int) -> None:
        """End the proposal: the controller has confirmed `isr`, and the state's version is `partition_epoch`."""
        self.isr = isr
        self.partition_epoch = partition_epoch
        self.withdraw()

    def withdraw(self) -> None:
        """End the proposal, which the controller has refused; the ISR stays as it was."""
        self.proposed = None
        self.maximal_isr = self.isr


class Follower:
    """The role of a broker that does not lead the partition.

    Attributes:
        leader: the leader's broker id, -1 while there is none.
        epoch: the leader epoch.
        partition_epoch: the version of the partition's state, as far as it is known; each change increments it.
        replicas: the brokers that hold the partition.
    """

    __slots__ = ("epoch", "leader", "partition_epoch", "replicas")

    def __init__(self, state: PartitionState) -> None:
        self.leader = state.leader
        self.epoch = state.leader_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = state.replicas

    def is_superseded_by(self, state: PartitionState) -> bool:
        """Return whether `state` is newer: of a later epoch, or of this one with other replicas."""
        if state.leader_epoch != self.epoch or state.leader != self.leader:
            return state.leader_epoch > self.epoch
        if state.partition_epoch != self.partition_epoch:
            return state.partition_epoch > self.partition_epoch
        return state.replicas != self.replicas

    def high_watermark(self, of_leader: int, log_end: int) -> int:
        """Return the high watermark here: the leader's, or the log end if that is lower. It may move back."""
        return min(of_leader, log_end)


Role = Leader | Follower


def role_of(state: PartitionState, broker_id: int, log_end: int, now_ms: int, before: Role | None) -> Role:
    """Make the role that `state` gives a broker whose log ends at `log_end`."""
    if state.leader != broker_id:
        return Follower(state)
    isr = frozenset(state.isr)
    last = before if isinstance(before, Leader) else None
    known = {} if last is None else last.followers
    # A replica that a reassignment removes may be in sync for a moment longer, and may be elected then: what it lacks
    # is not committed. Apache Kafka leaves it out of account.
    others = [replica for replica in dict.fromkeys((*state.replicas, *state.isr)) if replica != broker_id]
    followers = {replica: known.get(replica, FollowerState()) for replica in others}
    if last is not None and last.epoch == state.leader_epoch:
        return Leader(broker_id, state, last.since, last.epoch_start, followers)
    # In an epoch that this broker missed another one may have led. The followers may have truncated their logs then, so
    # their former positions may vouch for records that they no longer have.
    led_the_last_epoch = last is not None and last.epoch + 1 == state.leader_epoch
    for replica, follower in followers.items():
        followers[replica] = follower.elected(log_end, now_ms, in_sync=replica in isr, again=led_the_last_epoch)
    since = last.since if last is not None and led_the_last_epoch else state.leader_epoch
    return Leader(broker_id, state, since, log_end, followers)
