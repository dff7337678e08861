"""Test that with members that join, leave, die and lose responses, no partition has two owners and all settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.coordinator.group.kip848.group import EMPTY, STABLE, ConsumerGroup
from broker.coordinator.group.kip848.model import Assignment, assignment_of
from kafkalog.protocol.errors import FencedMemberEpochError, UnknownMemberIdError
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from tests.broker.coordinator.group.kip848.support import Coordinator, FakeTopics, beat, join


class Consumer:
    """A client: it owns what it was told, until it has given it back."""

    def __init__(self, member_id: str, names: list[str], regex: str | None, assignor: str | None) -> None:
        self.member_id = member_id
        self.names = names
        self.regex = regex
        self.assignor = assignor
        self.epoch = 0
        self.owned: Assignment = {}
        self.told: Assignment | None = None
        self.missed = False

    def take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.missed = False
        if response.assignment is not None:
            self.told = assignment_of(response.assignment.topic_partitions)  # type: ignore[arg-type]

    def reconcile(self) -> None:
        if self.told is not None:
            self.owned, self.told = self.told, None


def _view(group: ConsumerGroup) -> Mapping[str, Any]:
    """All that the log says of a group."""
    epochs = {
        (topic, partition): group.owner_epoch(topic, partition)
        for member in group.members.values()
        for some in (member.assigned, member.pending_revocation)
        for topic, partitions in some.items()
        for partition in partitions
    }
    return {
        "members": group.members,
        "static": group.static_members,
        "epochs": (group.group_epoch, group.assignment_epoch),
        "target": group.target,
        "topics": group.topics,
        "regexes": group.regexes,
        "owners": epochs,
    }


class GroupMachine(RuleBasedStateMachine):
    @initialize(partitions=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def begin(self, partitions: list[int]) -> None:
        self.topics = FakeTopics(*partitions)
        self.coordinator = Coordinator(self.topics, regex_refresh_ms=0)
        self.consumers: dict[str, Consumer] = {}
        self.made = 0

    def _send(self, consumer: Consumer, *, lost: bool = False) -> None:
        """One heartbeat, whose answer the client may miss."""
        if consumer.epoch == 0:
            request = join(consumer.member_id, *consumer.names, regex=consumer.regex, assignor=consumer.assignor)
        else:
            request = beat(consumer.member_id, consumer.epoch, consumer.owned)
            if consumer.missed:
                # It says all, and so is told all.
                request.rebalance_timeout_ms = 30_000
                request.subscribed_topic_names = consumer.names
                request.subscribed_topic_regex = consumer.regex
        consumer.missed = lost
        try:
            response = self.coordinator.request(request)
        except (FencedMemberEpochError, UnknownMemberIdError):
            # It abandons its partitions and joins again.
            consumer.owned, consumer.told, consumer.epoch = {}, None, 0
            return
        if not lost:
            consumer.take(response)

    def _one(self, data: st.DataObject) -> Consumer | None:
        return self.consumers[data.draw(st.sampled_from(sorted(self.consumers)))] if self.consumers else None

    @rule(data=st.data())
    def comes(self, data: st.DataObject) -> None:
        if len(self.consumers) == 5:
            return
        self.made += 1
        names = data.draw(st.lists(st.sampled_from(["t0", "t1", "t2", "absent"]), unique=True, max_size=3))
        regex = data.draw(st.sampled_from([None, None, "t.*", "t[01]"]))
        assignor = data.draw(st.sampled_from([None, "uniform", "range"]))
        consumer = Consumer(f"m{self.made}", names, regex, assignor)
        self.consumers[consumer.member_id] = consumer
        self._send(consumer, lost=data.draw(st.booleans()))

    @rule(data=st.data(), lost=st.booleans())
    def sends_a_heartbeat(self, data: st.DataObject, lost: bool) -> None:
        consumer = self._one(data)
        if consumer:
            self._send(consumer, lost=lost)

    @rule(data=st.data())
    def does_as_told(self, data: st.DataObject) -> None:
        consumer = self._one(data)
        if consumer:
            consumer.reconcile()

    @rule(data=st.data())
    def leaves(self, data: st.DataObject) -> None:
        consumer = self._one(data)
        if consumer:
            del self.consumers[consumer.member_id]
            self.coordinator.request(beat(consumer.member_id, -1))

    @rule(data=st.data())
    def dies(self, data: st.DataObject) -> None:
        consumer = self._one(data)
        if consumer:
            del self.consumers[consumer.member_id]
            self.coordinator.fence(consumer.member_id)

    @rule(data=st.data())
    def begins_anew_under_its_id(self, data: st.DataObject) -> None:
        consumer = self._one(data)
        if consumer:
            consumer.owned, consumer.told, consumer.epoch = {}, None, 0
            self._send(consumer)

    @rule(number=st.integers(0, 2), more=st.integers(1, 2))
    def a_topic_grows(self, number: int, more: int) -> None:
        present = self.topics.get(f"t{number}")
        self.topics.put(f"t{number}", (present.partitions if present else 0) + more, number)

    @rule(compacted=st.booleans())
    def the_broker_crashes(self, compacted: bool) -> None:
        group = self.coordinator.reload(compacted=compacted)
        assert _view(group) == _view(self.coordinator.group)
        self.coordinator.group = group

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        owners: Counter[tuple[UUID, int]] = Counter()
        for consumer in self.consumers.values():
            both = set()
            # What it was told it may take at any moment, and what it has it keeps until then.
            for assignment in (consumer.owned, consumer.told or {}):
                both |= {(topic, partition) for topic, some in assignment.items() for partition in some}
            owners.update(both)
        assert not [partition for partition, times in owners.items() if times > 1]

    def teardown(self) -> None:
        """Left alone, the members come to rest with every partition among them."""
        if not hasattr(self, "coordinator"):
            return
        for _ in range(20):
            for consumer in self.consumers.values():
                self._send(consumer)
                consumer.reconcile()
        group = self.coordinator.group
        assert group.state == (STABLE if self.consumers else EMPTY)
        owned = {
            (topic, partition)
            for consumer in self.consumers.values()
            for topic, some in consumer.owned.items()
            for partition in some
        }
        wanted = {
            (topic.topic_id, partition)
            for topic in self.topics.by_name.values()
            if topic.name in group.all_subscribed()
            for partition in range(topic.partitions)
        }
        assert owned == wanted
        epochs = {consumer.epoch for consumer in self.consumers.values()}
        assert epochs <= {group.group_epoch}
        sent = sum(map(len, self.coordinator.log))
        for consumer in self.consumers.values():
            self._send(consumer)
        assert sum(map(len, self.coordinator.log)) == sent, "a group at rest writes nothing"


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=30, stateful_step_count=25)
