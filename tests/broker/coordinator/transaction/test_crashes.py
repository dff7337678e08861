"""Test the coordinator with crashes: a write may be stored, refused, or stored without a response; time passes.

What must hold, whatever happens in which order:

- a transaction's records are followed by one kind of marker in all its partitions, never by both;
- a commit that was acknowledged puts COMMIT markers into every partition that was added, and so for aborts;
- a producer that another session has fenced writes nothing any more;
- when all is quiet and time has passed, nothing is left open or half done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.coordinator.transaction import completion
from broker.coordinator.transaction.admission import Admission
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.settings import TransactionSettings
from kafkalog.protocol.errors import KafkaError
from tests.broker.coordinator.transaction.simulated import (
    Data,
    SimulatedLog,
    SimulatedMarkers,
    SimulatedPartition,
    never_absent,
)

IDS = ("one", "two")
PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
TIMEOUT_MS = 1000
EXPIRATION_MS = 1_000_000
NEVER_MS = 1 << 40
"""An interval that never passes: `Crashes.time_passes` does the timers' work, so no example depends on real time."""
SETTINGS = TransactionSettings(
    expiration_ms=EXPIRATION_MS, abort_interval_ms=NEVER_MS, remove_expired_interval_ms=NEVER_MS
)
TURNS = 25
"""Rounds of the loop in which everything that can go on has gone on."""
THEN = st.sampled_from(["settle", "settle", "settle", "leave"])
"""After "settle" the writes of a request settle before the next step; after "leave" they may stay open."""
OUTCOMES = st.sampled_from(["stored", "stored", "stored", "refused", "unknown"])


@dataclass
class Session:
    """A producer process: what it was given, and the transaction that it believes to be in."""

    transactional_id: str
    producer: Producer
    tag: int = -1
    added: set[tuple[str, int]] = field(default_factory=set)
    ending: bool = False


@dataclass
class Outcome:
    """The acknowledged writes of a transaction, and its acknowledged end."""

    producer: Producer
    added: dict[tuple[str, int], int] = field(default_factory=dict)
    committed: bool | None = None


class Crashes(RuleBasedStateMachine):
    """See the module."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now = 1_700_000_000_000
        self.epoch = 0
        self.next_id = 0
        self.log = SimulatedLog()
        self.partitions = {key: SimulatedPartition(key) for key in PARTITIONS}
        self.markers = SimulatedMarkers(self.partitions)
        self.sessions: list[Session] = []
        self.newest: dict[str, Session] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.clients: dict[asyncio.Task[None], None] = {}
        self.start()

    def start(self) -> None:
        self.coordinator = TransactionCoordinator(
            log=self.log,
            write_marker=self.markers.write,
            is_known=lambda topic, index: True,
            is_absent=never_absent,
            allocate_producer_id=self.allocate,
            reserve_producer_ids=self.reserve,
            settings=lambda: SETTINGS,
            now_ms=lambda: self.now,
        )
        self.admission = Admission(self.coordinator, lambda: True)
        self.loop.call_soon(self.coordinator.start)
        self.turn()

    async def allocate(self) -> int:
        await asyncio.sleep(0)
        self.next_id += 1
        return self.next_id

    async def reserve(self, largest: int) -> None:
        assert largest <= self.next_id

    def turn(self) -> None:
        async def turns() -> None:
            for _ in range(TURNS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    def request(self, work: Coroutine[Any, Any, None], then: str = "leave") -> None:
        """Let a client ask; refusals are its own affair."""

        async def client() -> None:
            try:
                await work
            except KafkaError:
                return

        task = self.loop.create_task(client())
        self.clients[task] = None
        task.add_done_callback(self.clients.pop)
        self.turn()
        if then == "settle":
            self.settle_all()

    # -- producers

    @initialize()
    def begin_sessions(self) -> None:
        for transactional_id in IDS:
            self.begin_session(transactional_id, "settle")

    def pick(self, data: st.DataObject) -> Session:
        """Mostly one that is not fenced yet."""
        return data.draw(st.sampled_from([*self.newest.values(), *self.newest.values(), *self.sessions]))

    @rule(transactional_id=st.sampled_from(IDS), then=THEN)
    def begin_session(self, transactional_id: str, then: str) -> None:
        async def work() -> None:
            producer = await self.coordinator.init_producer_id(transactional_id, TIMEOUT_MS)
            self.open(transactional_id, producer)

        self.request(work(), then)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), then=THEN)
    def raise_epoch(self, data: st.DataObject, then: str) -> None:
        session = self.pick(data)

        async def work() -> None:
            producer = await self.coordinator.init_producer_id(session.transactional_id, TIMEOUT_MS, session.producer)
            self.open(session.transactional_id, producer)

        self.request(work(), then)

    def open(self, transactional_id: str, producer: Producer) -> None:
        newest = self.newest.get(transactional_id)
        if newest is not None and newest.producer == producer:
            # It asked again for the epoch that it was given (KIP-360): the same process, and not two under one epoch.
            return
        session = Session(transactional_id, producer)
        self.sessions = [one for one in self.sessions if one.transactional_id != transactional_id][-2:] + (
            [self.newest[transactional_id]] if transactional_id in self.newest else []
        )
        self.sessions.append(session)
        self.newest[transactional_id] = session

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS), adds=st.booleans(), then=THEN)
    def write(self, data: st.DataObject, partition: tuple[str, int], adds: bool, then: str) -> None:
        self.write_to(self.pick(data), partition, adds=adds, then=then)

    def write_to(self, session: Session, partition: tuple[str, int], *, adds: bool, then: str) -> None:
        if session.ending:
            return
        if session.tag < 0:
            session.tag = len(self.outcomes)
            self.outcomes[session.tag] = Outcome(session.producer)
        if adds or not session.added:
            self.request(self.add(session, session.tag, partition), then)
        target: Any = self.partitions[partition]
        entry = target.producers.producers.get(session.producer.id)
        if session.tag < 0 or (partition not in session.added and entry and entry.transaction_first_offset >= 0):
            # No client writes before its addition is acknowledged; what is tried all the same must be refused where
            # the last transaction has ended. Before its marker it would be part of that, as in Kafka 3.9.
            return
        try:
            self.admission.check(session.transactional_id, session.producer, target, abortable=True)
            target.write(session.producer, session.tag)
        except KafkaError:
            return
        assert partition in session.added or self.may_be_added(session, partition)
        assert self.newest[session.transactional_id].producer <= session.producer, "a fenced producer wrote"

    async def add(self, session: Session, tag: int, partition: tuple[str, int]) -> None:
        await self.coordinator.add_partitions(session.transactional_id, session.producer, [partition])
        if session.tag == tag:
            session.added.add(partition)
            self.outcomes[tag].added.setdefault(partition, len(self.partitions[partition].entries))

    def may_be_added(self, session: Session, partition: tuple[str, int]) -> bool:
        """Return whether an addition whose answer was lost may have been stored."""
        machine = self.coordinator.describe(session.transactional_id)
        return machine.producer == session.producer and partition in machine.current.partitions

    @precondition(lambda self: self.sessions)
    @rule(
        data=st.data(), committed=st.booleans(), then=THEN,
        partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=3, unique=True),
    )  # fmt: skip
    def transact(self, data: st.DataObject, partitions: list[tuple[str, int]], committed: bool, then: str) -> None:
        """From the first partition to the decision, whose markers may wait."""
        session = self.pick(data)
        for partition in partitions:
            self.write_to(session, partition, adds=True, then="settle")
        self.end_of(session, committed, then)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), committed=st.booleans(), then=THEN)
    def end(self, data: st.DataObject, committed: bool, then: str) -> None:
        self.end_of(self.pick(data), committed, then)

    def end_of(self, session: Session, committed: bool, then: str) -> None:
        if session.tag < 0 or not session.added:
            return
        tag, session.ending = session.tag, True

        async def work() -> None:
            await self.coordinator.end(session.transactional_id, session.producer, committed=committed)
            outcome = self.outcomes[tag]
            assert outcome.committed in (None, committed), "both a commit and an abort were acknowledged"
            outcome.committed = committed
            if session.tag == tag:
                session.tag, session.ending = -1, False
                session.added.clear()

        self.request(work(), then)

    # -- what becomes of writes

    @precondition(lambda self: self.log.waiting)
    @rule(outcome=OUTCOMES)
    def settle_log(self, outcome: str) -> None:
        self.log.settle_first(outcome)
        self.turn()

    @precondition(lambda self: self.markers.waiting)
    @rule(outcome=OUTCOMES)
    def settle_marker(self, outcome: str) -> None:
        self.markers.settle_first(outcome)
        self.turn()

    @precondition(lambda self: self.log.unreplicated)
    @rule()
    def replicate(self) -> None:
        self.log.replicate()
        self.turn()

    @rule()
    def settle_all(self) -> None:
        for _ in range(200):
            if self.log.waiting:
                self.log.settle_first("stored")
            elif self.markers.waiting:
                self.markers.settle_first("stored")
            elif self.log.unreplicated:
                self.log.replicate()
            else:
                return
            self.turn()
        raise AssertionError("it never comes to rest")

    def decide(self, transactional_id: str, committed: bool) -> bool:
        """Write to all partitions, and ask for the decision, which waits; return False where there is no session."""
        session = self.newest.get(transactional_id)
        if session is None:
            return False
        for partition in PARTITIONS:
            self.write_to(session, partition, adds=True, then="settle")
        self.settle_all()
        self.end_of(session, committed, "leave")
        return True

    @rule(transactional_id=st.sampled_from(IDS), committed=st.booleans(), markers=st.integers(0, 3))
    def crash_once_decided(self, transactional_id: str, committed: bool, markers: int) -> None:
        """The decision is stored, and some of its markers."""
        if not self.decide(transactional_id, committed):
            return
        if self.log.waiting:
            self.log.settle_first("stored")
            self.turn()
        self.restart(len(self.log.waiting), min(markers, len(self.markers.waiting)), raises_epoch=committed)

    @rule(transactional_id=st.sampled_from(IDS), markers=st.integers(0, 3))
    def crash_before_the_decision_is_replicated(self, transactional_id: str, markers: int) -> None:
        """The next leader has the decision; it crashes before others have it, and the one after it has not."""
        if not self.decide(transactional_id, committed=True):
            return
        self.restart(len(self.log.waiting), 0, raises_epoch=True)
        self.restart(0, min(markers, len(self.markers.waiting)), self.log.unreplicated, raises_epoch=True)

    @rule(data=st.data(), raises_epoch=st.booleans())
    def crash(self, data: st.DataObject, raises_epoch: bool) -> None:
        records = data.draw(st.integers(0, len(self.log.waiting)))
        markers = data.draw(st.integers(0, len(self.markers.waiting)))
        lost = data.draw(st.integers(0, self.log.unreplicated)) if raises_epoch else 0
        self.restart(records, markers, lost, raises_epoch=raises_epoch)

    def restart(self, records: int, markers: int, lost: int = 0, *, raises_epoch: bool) -> None:
        """After a crash that so many of the writes under way survive, and so many of the records not replicated do not.

        The end of the log that is lost may be of writes under way as well.
        """
        for task in list(self.clients):
            task.cancel()
        self.loop.run_until_complete(self.coordinator.stop())
        self.turn()
        self.log.crash(records, lost)
        self.markers.crash(markers)
        self.epoch += raises_epoch
        self.log.begin(self.epoch)
        self.start()

    # -- time

    @rule(by=st.sampled_from([1, 1, TIMEOUT_MS // 2, TIMEOUT_MS + 1, EXPIRATION_MS + 1]), then=THEN)
    def time_passes(self, by: int, then: str) -> None:
        self.now += by
        self.request(self.coordinator.abort_timed_out(), then)
        self.request(self.coordinator.remove_expired(), then)

    # -- what must hold

    @invariant()
    def one_kind_of_marker(self) -> None:
        kinds: dict[int, set[bool]] = {}
        for partition in self.partitions.values():
            open_: dict[int, set[int]] = {}
            for entry in partition.entries:
                if isinstance(entry, Data):
                    open_.setdefault(entry.producer.id, set()).add(entry.tag)
                    assert len(open_[entry.producer.id]) == 1, "two transactions ran into each other"
                else:
                    for tag in open_.pop(entry.producer_id, set()):
                        kinds.setdefault(tag, set()).add(entry.committed)
        for tag, found in kinds.items():
            assert len(found) == 1, f"transaction {tag} was both committed and aborted"
            committed = self.outcomes[tag].committed
            assert committed is None or found == {committed}, f"transaction {tag} ended other than acknowledged"

    def teardown(self) -> None:
        self.settle_all()
        self.now += TIMEOUT_MS + 1
        self.request(self.coordinator.abort_timed_out())
        self.settle_all()
        self.one_kind_of_marker()
        for partition in self.partitions.values():
            assert not partition.producers.ongoing, "a transaction stays open"
        for machine in self.coordinator.all():
            assert machine.pending is None
            assert machine.current.state.may_expire
        for outcome in self.outcomes.values():
            if outcome.committed is not None:
                self.check_markers(outcome)
        self.loop.run_until_complete(self.coordinator.stop())
        self.loop.close()

    def check_markers(self, outcome: Outcome) -> None:
        for key, position in outcome.added.items():
            following = [
                entry.committed
                for entry in self.partitions[key].entries[position:]
                if isinstance(entry, Marker) and entry.producer_id == outcome.producer.id
            ]
            assert following[:1] == [outcome.committed], f"{key} lacks the marker that was acknowledged"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Retries come at once, and thousands of them are not logged."""
    monkeypatch.setattr(completion, "FIRST_RETRY_SECONDS", 0)
    monkeypatch.setattr(completion, "LAST_RETRY_SECONDS", 0)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_crashes_between_any_two_writes() -> None:
    run_state_machine_as_test(Crashes, settings=settings(max_examples=40, stateful_step_count=50))


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_crashes_for_long() -> None:
    # An alarm within an example would be taken for a failure that comes and goes: the time limit is a wide one.
    run_state_machine_as_test(Crashes, settings=settings(max_examples=1500, stateful_step_count=80, derandomize=False))
