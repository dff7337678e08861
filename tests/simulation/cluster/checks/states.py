"""The partitions' states in ZooKeeper: every change is looked at when it is made (I3, I5, I7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from broker.metadata.model import NO_LEADER
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import StateNode, TopicNode, decode_state, decode_topic
from broker.zookeeper.interface import Check, Create, Delete, Operation, SetData
from tests.simulation.zookeeper import SimulatedEnsemble

_STATE = re.compile(rf"{paths.TOPICS}/([^/]+)/partitions/(\d+)/state")
_TOPIC = re.compile(rf"{paths.TOPICS}/([^/]+)")
_BROKER = re.compile(rf"{paths.BROKER_IDS}/(\d+)")

PartitionKey = tuple[str, int]

UNDELIVERED_S = 15.0
"""A controller may still have an order for a broker that could not be reached for so long. It drops the order when it
loses its office, or the broker its registration."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a partition's state."""

    key: PartitionKey
    before: StateNode | None
    after: StateNode

    @property
    def is_election(self) -> bool:
        """Return whether a leader was elected; the same one again counts, too."""
        before = self.before
        return self.after.leader != NO_LEADER and (before is None or before.leader_epoch != self.after.leader_epoch)

    @property
    def is_clean(self) -> bool:
        """Return whether the leader was in sync."""
        return self.before is None or self.after.leader in self.before.isr


class States:
    """The topics and partitions in ZooKeeper, with a check of each change.

    Args:
        now: returns the time in seconds.

    Attributes:
        topics, partitions: the present contents of the nodes.
        deleting: the topics that are being deleted. Their replicas go one by one, so they promise nothing any more.
    """

    def __init__(
        self,
        ensemble: SimulatedEnsemble,
        now: Callable[[], float],
        report: Callable[[str], None],
        changed: Callable[[Change], None],
    ) -> None:
        self._now = now
        self._ensemble = ensemble
        self._report = report
        self._changed = changed
        self.topics: dict[str, TopicNode] = {}
        self.partitions: dict[PartitionKey, StateNode] = {}
        self.deleting: set[str] = set()
        self._created: dict[str, int] = {}
        self._controller_epoch = -1
        self._unassigned: dict[tuple[PartitionKey, int], tuple[float, bool]] = {}
        """The times at which brokers lost their replicas of partitions; true if they were registered then."""
        self._untold: set[tuple[PartitionKey, int]] = set()
        ensemble.on_commit = self._committed

    def identity(self, key: PartitionKey) -> str:
        """Return a name of the partition that no later topic of the same name has."""
        # Topics of old versions have no ids; the transaction that created the node tells them apart.
        return f"{key[0]}-{key[1]}@{self._created.get(key[0], 0)}"

    def created(self, topic: str) -> int:
        """Return the transaction that created a topic's node; 0 for no topic."""
        return self._created.get(topic, 0)

    def may_be_stray(self, key: PartitionKey, number: int) -> bool:
        """Return whether a broker may never have been told that it has no replica of the partition any more.

        The new assignment is all that a controller writes. If it loses its office before it has reached the broker, or
        the broker is not registered, nobody knows later that there is something to tell. Apache Kafka has the same gap;
        here the broker finds it when it compares its roles with ZooKeeper.
        """
        return (key, number) in self._untold

    def _assigned(self, topic: str, after: TopicNode) -> None:
        before = self.topics.get(topic)
        if before is not None:
            for index, assignment in before.partitions.items():
                now_there = after.partitions[index].replicas if index in after.partitions else ()
                for number in now_there:
                    self._unassigned.pop(((topic, index), number), None)
                    self._untold.discard(((topic, index), number))
                for number in set(assignment.replicas) - set(now_there):
                    is_registered = self._ensemble.exists(paths.broker_id(number))
                    self._unassigned[(topic, index), number] = self._now(), is_registered
        self.topics[topic] = after

    def _controller_changed(self, epoch: int) -> None:
        if epoch <= self._controller_epoch:
            self._report(f"the controller's epoch goes from {self._controller_epoch} to {epoch} (I7)")
        self._controller_epoch = epoch
        least = self._now() - UNDELIVERED_S
        self._untold.update(found for found, (at, _) in self._unassigned.items() if at >= least)

    def _registered(self, number: int) -> None:
        least = self._now() - UNDELIVERED_S
        for found, (at, was_registered) in self._unassigned.items():
            if found[1] == number and (at >= least or not was_registered):
                self._untold.add(found)

    def _committed(self, operations: Sequence[Operation], session_id: int) -> None:
        names_epoch = any(isinstance(each, Check) and each.path == paths.CONTROLLER_EPOCH for each in operations)
        for each in operations:
            if isinstance(each, Check):
                continue
            state = _STATE.fullmatch(each.path)
            topic = _TOPIC.fullmatch(each.path)
            if state is not None:
                key = state[1], int(state[2])
                if isinstance(each, Delete):
                    self.partitions.pop(key, None)
                else:
                    self._state_changed(key, each, names_epoch)
            elif topic is not None:
                if isinstance(each, Delete):
                    self.topics.pop(topic[1], None)
                    self.deleting.discard(topic[1])
                    self._created.pop(topic[1], None)
                else:
                    self._assigned(topic[1], decode_topic(topic[1], each.data))
                    self._created[topic[1]] = self._ensemble.read(each.path).stat.created
            elif isinstance(each, Create) and (broker := _BROKER.fullmatch(each.path)) is not None:
                self._registered(int(broker[1]))
            elif each.path.startswith(f"{paths.DELETE_TOPICS}/") and isinstance(each, Create):
                self.deleting.add(each.path.rpartition("/")[2])
            elif each.path == paths.CONTROLLER_EPOCH and isinstance(each, Create | SetData):
                self._controller_changed(int(each.data))

    def _state_changed(self, key: PartitionKey, operation: Create | SetData, names_epoch: bool) -> None:
        version = self._ensemble.read(operation.path).stat.version
        before, after = self.partitions.get(key), decode_state(*key, operation.data, version)
        self.partitions[key] = after
        name = f"{key[0]}-{key[1]}"
        if before is None or (before.leader, before.leader_epoch) != (after.leader, after.leader_epoch):
            if not names_epoch:
                self._report(f"{name}: {before} became {after} without the controller's epoch (I7)")
            if before is not None and after.leader_epoch <= before.leader_epoch:
                self._report(f"{name}: the leader epoch does not grow from {before} to {after} (I3)")
        if not after.isr:
            self._report(f"{name}: nobody is in sync: {after} (I5)")
        if after.leader != NO_LEADER and after.leader not in after.isr:
            self._report(f"{name}: the leader is not in sync: {after} (I5)")
        topic = self.topics.get(key[0])
        if topic is not None and key[1] in topic.partitions and before is not None:
            joined = set(after.isr) - set(before.isr)
            strange = joined - set(topic.partitions[key[1]].replicas)
            if not names_epoch:
                # A leader that writes the ISR itself, as before AlterPartition, may not know the assignment yet.
                least = self._now() - UNDELIVERED_S
                strange = {each for each in strange if self._unassigned.get((key, each), (0.0, False))[0] < least}
            if strange:
                self._report(f"{name}: {sorted(strange)} joined the ISR and have no replica (I5)")
        self._changed(Change(key, before, after))
