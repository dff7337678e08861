"""Test the roles of a partition with histories of appends, fetches, elections and changes of the ISR."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from broker.metadata.model import PartitionState
from broker.replica.divergence import truncation
from broker.replica.roles import Follower, Leader, Role, role_of
from kafkalog.protocol.errors import NotLeaderOrFollowerError

LAG_MS = 100
BROKERS = (0, 1, 2)


def state(
    leader: int, epoch: int, isr: tuple[int, ...] = BROKERS, replicas: tuple[int, ...] = BROKERS
) -> PartitionState:
    return PartitionState(replicas, isr, leader, epoch)


def leader(isr: tuple[int, ...] = BROKERS, epoch: int = 3, log_end: int = 10, before: Role | None = None) -> Leader:
    made = role_of(state(0, epoch, isr), 0, log_end, 1000, before)
    assert isinstance(made, Leader)
    return made


def test_a_new_role_is_another_object_that_knows_its_beginning() -> None:
    first = leader()
    again = leader(epoch=4, log_end=20, before=first)
    assert (first.epoch, first.epoch_start, first.since) == (3, 10, 3)
    assert (again.epoch, again.epoch_start, again.since) == (4, 20, 3)
    follower = role_of(state(1, 6), 0, 20, 1000, again)
    assert isinstance(follower, Follower)
    assert (follower.leader, follower.epoch) == (1, 6)
    assert leader(epoch=7, log_end=15, before=follower).since == 7


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (state(0, 3), False),
        (state(0, 2, (0,)), False),
        (state(1, 3), False),
        (state(1, 2), False),
        (state(0, 3, (0, 1)), True),
        (state(0, 3, (0,), (0, 1)), True),
        (state(0, 4), True),
        (state(1, 4), True),
        (state(-1, 4), True),
    ],
)
def test_which_states_supersede_a_leader(offered: PartitionState, taken: bool) -> None:
    assert leader().is_superseded_by(offered) is taken


def test_within_an_epoch_the_count_of_changes_decides() -> None:
    made = role_of(replace(state(0, 3), partition_epoch=5), 0, 10, 1000, None)
    follows = role_of(replace(state(1, 3), partition_epoch=5), 0, 10, 1000, None)
    for role, led in ((made, 0), (follows, 1)):
        assert not role.is_superseded_by(replace(state(led, 3, (0,), (0, 1)), partition_epoch=4))
        assert not role.is_superseded_by(replace(state(led, 3), partition_epoch=5))
        assert role.is_superseded_by(replace(state(led, 3), partition_epoch=6))
        assert role.is_superseded_by(state(led, 4))


def test_an_isr_that_changes_within_an_epoch_keeps_what_is_known_of_followers() -> None:
    role = leader(log_end=10)
    role.fetched(1, 12, 0, 12, 1010)
    shrunk = leader((0, 1), log_end=15, before=role)
    assert (shrunk.epoch_start, shrunk.followers[1].log_end_offset) == (10, 12)
    assert shrunk.isr == {0, 1}


def test_the_epoch_of_a_follower_is_that_of_its_last_fetch() -> None:
    role = leader(log_end=10)
    assert role.broker_epochs == {1: -1, 2: -1}
    role.fetched(1, 10, 0, 10, 1000, 7)
    role.stayed(1, 10, 1010)
    assert role.broker_epochs == {1: 7, 2: -1}
    role.fetched(1, 10, 0, 10, 1020, 9)
    with pytest.raises(NotLeaderOrFollowerError):
        role.fetched(1, 4, 0, 10, 1030, 7)
    assert (role.broker_epochs[1], role.followers[1].log_end_offset) == (9, 10)
    assert leader(epoch=4, before=role).broker_epochs[1] == 9
    # What was known before another broker led says nothing any more.
    between = role_of(state(1, 4), 0, 10, 1000, role)
    assert leader(epoch=5, before=between).broker_epochs == {1: -1, 2: -1}


def test_after_an_epoch_that_it_missed_a_leader_knows_nothing_of_its_followers() -> None:
    """Another broker may have led then, and the followers may have truncated their logs."""
    role = leader(epoch=3, log_end=20)
    role.fetched(1, 20, 0, 20, 1000)
    role.fetched(2, 20, 0, 20, 1000)
    again = leader(epoch=5, log_end=30, before=role)
    assert [each.is_known for each in again.followers.values()] == [False, False]
    assert again.high_watermark(10, 30, 1, 1000, LAG_MS) == 10
    assert again.since == 5
    again.fetched(1, 12, 0, 30, 1001)
    again.fetched(2, 30, 0, 30, 1001)
    assert again.high_watermark(10, 30, 1, 1001, LAG_MS) == 12


def test_the_high_watermark_waits_for_every_member_of_both_isrs() -> None:
    role = leader((0, 1), log_end=0)
    role.fetched(1, 8, 0, 10, 1000)
    role.fetched(2, 5, 0, 10, 1000)
    assert role.high_watermark(0, 10, 1, 1000 + 2 * LAG_MS, LAG_MS) == 8
    role.fetched(2, 8, 0, 10, 1000)
    proposed = role.expanded_isr(2, 8)
    assert proposed is not None
    assert sorted(proposed) == [0, 1, 2]
    role.propose(proposed)
    role.fetched(1, 10, 0, 10, 1001)
    assert role.high_watermark(8, 10, 1, 1001 + 2 * LAG_MS, LAG_MS) == 8
    assert role.expanded_isr(2, 8) is None, "one proposal at a time"
    role.withdraw()
    assert role.maximal_isr == role.isr == frozenset({0, 1})
    assert role.high_watermark(8, 10, 1, 1001 + 2 * LAG_MS, LAG_MS) == 10


def test_a_proposal_to_shrink_lets_nobody_off_before_it_is_confirmed() -> None:
    role = leader(log_end=0)
    role.fetched(1, 10, 0, 10, 1000)
    role.fetched(2, 4, 0, 10, 1000)
    later = 1000 + 2 * LAG_MS
    assert role.shrunk_isr(10, later, LAG_MS) == frozenset({0, 1})
    role.propose(frozenset({0, 1}))
    assert role.high_watermark(0, 10, 1, later, LAG_MS) == 4
    role.confirm(frozenset({0, 1}), 1)
    assert role.partition_epoch == 1
    assert role.high_watermark(4, 10, 1, later, LAG_MS) == 10


def test_below_the_minimum_of_in_sync_replicas_the_high_watermark_stands_still() -> None:
    role = leader((0,), log_end=0)
    assert role.high_watermark(4, 10, 2, 1000, LAG_MS) == 4
    assert role.high_watermark(4, 10, 1, 1000, LAG_MS) == 10


class Broker:
    """A replica's log, each record of which is the epoch in which it was written and its number."""

    def __init__(self) -> None:
        self.log: list[tuple[int, int]] = []
        self.high_watermark = 0
        self.role: Role | None = None

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """As `LeaderEpochCache.end_offset_for`, of epochs that have records."""
        epochs = sorted({wrote for wrote, _ in self.log})
        if not epochs or epoch > epochs[-1] or epoch < epochs[0]:
            return -1, -1
        found = max(known for known in epochs if known <= epoch)
        return found, sum(wrote <= found for wrote, _ in self.log)

    def follow(self, leader: Broker) -> None:
        """Cut the log to agree with the leader's, asking as often as that takes."""
        done = False
        while not done:
            last = self.log[-1][0] if self.log else -1
            epoch, end = (-1, -1) if last < 0 else leader.end_offset_for(last)
            if last >= 0 and epoch < 0 and leader.log and last > leader.log[-1][0]:
                # The leader's own epoch has begun where its log ends.
                epoch, end = leader.log[-1][0], len(leader.log)
            cut = truncation(epoch, end, len(self.log), self.high_watermark, self.end_offset_for)
            del self.log[cut.offset :]
            self.high_watermark = min(self.high_watermark, len(self.log))
            done = cut.done


class History:
    """Three brokers, whose controller elects members of the ISR only."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.brokers = {broker: Broker() for broker in BROKERS}
        self.now, self.epoch, self.written = 0, 0, 0
        self.isr: tuple[int, ...] = BROKERS
        self.acknowledged: list[tuple[int, tuple[int, int]]] = []
        self.lead(0)

    @property
    def leading(self) -> tuple[Broker, Leader]:
        broker = self.brokers[self.leader]
        assert isinstance(broker.role, Leader)
        return broker, broker.role

    def lead(self, leader: int) -> None:
        self.leader = leader
        decided = state(leader, self.epoch, self.isr)
        for number, broker in self.brokers.items():
            broker.role = role_of(decided, number, len(broker.log), self.now, broker.role)
        for number, broker in self.brokers.items():
            if number != leader:
                broker.follow(self.brokers[leader])
        self.advance()

    def advance(self) -> None:
        broker, role = self.leading
        before = broker.high_watermark
        broker.high_watermark = role.high_watermark(before, len(broker.log), 1, self.now, LAG_MS)
        assert broker.high_watermark >= before, "it went back"
        assert broker.high_watermark <= len(broker.log)
        for member in role.isr - {self.leader}:
            known = role.followers[member].log_end_offset
            assert broker.high_watermark <= max(known, before), "it went beyond an in-sync replica"
        known_count = len(self.acknowledged)
        self.acknowledged += [(at, broker.log[at]) for at in range(known_count, broker.high_watermark)]

    # -- what may happen

    def append(self) -> None:
        broker, role = self.leading
        for _ in range(self.chance.randrange(1, 4)):
            self.written += 1
            broker.log.append((role.epoch, self.written))
        self.advance()

    def fetch(self) -> None:
        broker, role = self.leading
        number = self.chance.choice(sorted(role.followers))
        follower = self.brokers[number]
        assert isinstance(follower.role, Follower)
        offset = len(follower.log)
        role.fetched(number, offset, 0, len(broker.log), self.now)
        expanded = role.expanded_isr(number, broker.high_watermark)
        self.advance()
        follower.log += broker.log[offset : offset + self.chance.randrange(4)]
        follower.high_watermark = follower.role.high_watermark(broker.high_watermark, len(follower.log))
        if expanded is not None and role.proposed is None:
            role.propose(expanded)

    def shrink(self) -> None:
        broker, role = self.leading
        shrunk = role.shrunk_isr(len(broker.log), self.now, LAG_MS)
        if shrunk is not None:
            role.propose(shrunk)

    def answer(self) -> None:
        """The controller confirms what was proposed, or refuses it."""
        _, role = self.leading
        if role.proposed is None:
            return
        if self.chance.randrange(4):
            self.isr = tuple(sorted(role.proposed))
            role.confirm(role.proposed, role.partition_epoch + 1)
        else:
            role.withdraw()
        self.advance()

    def confirm_and_elect(self) -> None:
        """The controller has confirmed a proposal and elects before the leader hears of it."""
        _, role = self.leading
        if role.proposed is not None and self.chance.randrange(2):
            self.isr = tuple(sorted(role.proposed))
        self.elect()

    def elect(self) -> None:
        self.epoch += self.chance.randrange(1, 3)
        self.lead(self.chance.choice(self.isr))

    def wait(self) -> None:
        self.now += self.chance.randrange(LAG_MS)


@pytest.mark.parametrize("block", range(10))
def test_what_was_acknowledged_is_in_the_log_of_every_leader(block: int) -> None:
    shrinks = 0
    for seed in range(block * 30, block * 30 + 30):
        history = History(seed)
        acts = [history.append] * 6 + [history.fetch] * 12 + [history.answer] * 3 + [history.wait] * 3
        acts += [history.shrink, history.elect, history.confirm_and_elect]
        for _ in range(300):
            history.chance.choice(acts)()
            shrinks += len(history.isr) < len(BROKERS)
            for member in history.isr:
                log = history.brokers[member].log
                for at, record in history.acknowledged[-20:]:
                    assert at < len(log), f"seed {seed}: broker {member} lacks offset {at}"
                    assert log[at] == record, f"seed {seed}: broker {member} has another record at {at}"
        leading, _ = history.leading
        assert [leading.log[at] for at, _ in history.acknowledged] == [record for _, record in history.acknowledged]
        assert len(history.acknowledged) > 20
    assert shrinks
