"""Checks after the end of all faults: the cluster comes to rest, and the logs have what was promised."""

from __future__ import annotations

from broker.log.log import Log
from broker.metadata.znodes import paths
from broker.zookeeper.interface import NoNodeError
from kafkalog.records.batch import decode_batch, iter_headers
from tests.simulation.cluster.checks.invariants import Invariants
from tests.simulation.cluster.clients.history import ACKS_ALL, History, PartitionKey, Sent
from tests.simulation.cluster.hosts.machine import Machine
from tests.simulation.zookeeper import SimulatedEnsemble

MOST = 5
"""The number of examples of each kind."""


def unrest(ensemble: SimulatedEnsemble, machines: list[Machine], invariants: Invariants) -> list[str]:
    """Return what a cluster without faults still has to do (I8); nothing once it is at rest."""
    found: list[str] = []
    states = invariants.states
    if not ensemble.exists(paths.CONTROLLER):
        found.append("there is no controller")
    for path in (paths.DELETE_TOPICS, paths.REASSIGN_PARTITIONS):
        try:
            names = ensemble.names(path)
        except NoNodeError:
            continue
        if names:
            found.append(f"{path} has {names}")
    servers = {machine.number: machine.server for machine in machines if machine.is_serving}
    if len(servers) < len(machines):
        return [*found, f"only {sorted(servers)} have started"]
    for name, topic in states.topics.items():
        for index, assignment in topic.partitions.items():
            state = states.partitions.get((name, index))
            what = f"{name}-{index}"
            if assignment.adding or assignment.removing:
                found.append(f"{what} is being reassigned: {assignment}")
            if state is None or state.leader < 0 or set(state.isr) != set(assignment.replicas):
                found.append(f"{what} has {assignment.replicas} and is {state}")
                continue
            for number in assignment.replicas:
                server = servers[number]
                assert server is not None
                partition = server.replicas.get(name, index)
                leader = servers[state.leader]
                assert leader is not None
                leading = leader.replicas.get(name, index)
                if partition is None or leading is None or partition.leader_epoch != state.leader_epoch:
                    found.append(f"{what} has not its role on {number}")
                elif partition.log.log_end_offset != leading.log.log_end_offset:
                    found.append(f"{what} on {number} has not all of {state.leader}")
                elif partition.log.log_start_offset < leading.log.log_start_offset:
                    found.append(f"{what} on {number} has more than {state.leader}, which has deleted records")
    for number, server in servers.items():
        assert server is not None
        for partition in server.replicas:
            topic_node = states.topics.get(partition.topic)
            is_assigned = topic_node is not None and number in topic_node.partitions[partition.index].replicas
            if not is_assigned and not states.may_be_stray(partition.key, number):
                found.append(f"{partition.topic}-{partition.index} is still on {number}")
    return found


def _log_of(machine: Machine, key: PartitionKey) -> Log:
    assert machine.server is not None
    log = machine.server.logs.get(*key)
    assert log is not None, key
    return log


def start_of(machine: Machine, key: PartitionKey) -> int:
    """Return the offset at which a replica's log begins."""
    return _log_of(machine, key).log_start_offset


def values_of(machine: Machine, key: PartitionKey, start: int) -> dict[int, bytes]:
    """Return the values of a replica's log by their offsets, from an offset on, without markers."""
    log, offset = _log_of(machine, key), start
    found: dict[int, bytes] = {}
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        for position, header in iter_headers(data):
            if not header.is_control:
                _, records = decode_batch(data, position)
                found.update({record.offset: record.value or b"" for record in records if record.offset >= start})
            offset = header.next_offset
    return found


def seen_in_part(topic: str, seen: list[list[str]], committed: set[str], unknown: set[str]) -> list[str]:
    """Return what is wrong with transactions that wrote the same values to all partitions; `seen` has them of each."""
    found = []
    for index, values in enumerate(seen):
        if not committed <= set(values) <= committed | unknown:
            lacks, has = sorted(committed - set(values)), sorted(set(values) - committed - unknown)
            found.append(f"{topic}-{index} lacks committed {lacks}, has aborted {has} (I9)")
    if len({frozenset(values) for values in seen}) > 1:
        found.append(f"transactions are seen in part (I9): {[sorted(set(seen[0]) ^ set(each)) for each in seen]}")
    return found


class Verdict:
    """Compares what clients were told with the logs in the end.

    Args:
        values: the values of each partition, by their offsets.
        starts: the offsets before which records were deleted.
    """

    def __init__(
        self,
        history: History,
        invariants: Invariants,
        values: dict[PartitionKey, dict[int, bytes]],
        starts: dict[PartitionKey, int],
    ) -> None:
        self._history = history
        self._invariants = invariants
        self._values = values
        self._starts = starts

    def faults(self) -> list[str]:
        """Return what is wrong; nothing if all is well."""
        found = [f"{len(each)} {kind}: {'; '.join(each[:MOST])}" for kind, each in self._kinds() if each]
        return [*self._history.complaints, *found]

    def _kinds(self) -> list[tuple[str, list[str]]]:
        sent = self._history.sent
        return [
            ("acknowledged records are gone (I1)", [
                f"{value!r} of {each.key} at {each.offset}, sent at {each.sent_at:.3f}, acknowledged at {each.acked_at}"
                for value, each in sent.items() if each.acks == ACKS_ALL and not self._is_kept(value, each)
            ]),
            ("records are there twice", self._doubled()),
            ("records are out of order", self._out_of_order()),
            ("records that consumers have read are gone (I4)", [
                f"{each.value!r} of {each.key} at {each.offset}, read at {each.asked_at:.3f}, is now "
                f"{self._values[each.key].get(each.offset)!r}"
                for each in [*self._history.read.values(), *(before for before, _ in self._history.replaced)]
                if each.key in self._values
                and each.offset >= self._starts[each.key]
                and self._values[each.key].get(each.offset) != each.value
                and not self._is_excused(each.key, each.offset, each.asked_at)
            ]),
        ]  # fmt: skip

    def _is_excused(self, key: PartitionKey, offset: int, sent_at: float) -> bool:
        return self._invariants.is_excused(self._invariants.states.identity(key), offset, sent_at=sent_at)

    def _is_kept(self, value: bytes, sent: Sent) -> bool:
        if sent.acked_at is None or sent.key not in self._values:
            return True
        if sent.is_transactional and self._invariants.has_forgotten("__transaction_state"):
            # A coordinator that has forgotten a producer gives its epochs again. What is sent in them may be taken for
            # a duplicate of what the producer's former life sent, in Kafka as well.
            return True
        values, start = self._values[sent.key], self._starts[sent.key]
        if start and (sent.offset is None or sent.offset < start):
            return True
        if sent.offset is None:
            # The broker knew it as a duplicate, and not its offset any more.
            return value in values.values() or self._is_excused(sent.key, 1 << 62, sent.sent_at)
        return values.get(sent.offset) == value or self._is_excused(sent.key, sent.offset, sent.sent_at)

    def _doubled(self) -> list[str]:
        found: list[str] = []
        for key, values in self._values.items():
            first: dict[bytes, int] = {}
            for offset, value in values.items():
                if first.setdefault(value, offset) != offset:
                    found.append(f"{value!r} of {key} is at {first[value]} and at {offset}")
        return found

    def _out_of_order(self) -> list[str]:
        """Return records that follow later ones of the same producer."""
        found: list[str] = []
        for key, values in self._values.items():
            last: dict[str, int] = {}
            for offset, value in values.items():
                name, _, number = value.decode().partition(":")
                count = int(number.partition("@")[0])
                if last.get(name, 0) >= count:
                    found.append(f"{value!r} of {key} at {offset} follows {last[name]}")
                last[name] = count
        return found
