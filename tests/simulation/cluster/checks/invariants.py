"""The invariants that hold at any time, and what was promised.

Apache Kafka does not force each record to the device before it acknowledges it. So a record that all of the ISR have
may be lost when one of them loses power, comes back without it, and is elected before it has left the ISR: ZooKeeper
still lists it as in sync (KIP-966 describes this as the problem of the last replica standing). The same goes for an
unclean election, which an administrator has allowed. Both are noted as `Forgotten`: from which offset on, and in which
epoch. What has such an offset and an earlier epoch is promised no longer. Everything else is, always.

When several of the ISR lose power, their logs may end at different offsets. The one that is elected starts with the
high watermark of its checkpoint, which only its own log end bounds (`UnifiedLog` and `Partition.makeLeader` in Apache
Kafka). So this high watermark may stand above the log end of a member that lost more. A lower one would take back what
consumers have read of this leader's log. The member is excused until it has caught up with the leader.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from broker.metadata.znodes.topics import StateNode
from broker.replica.partition import Partition
from broker.replica.roles import Leader
from tests.simulation.cluster.checks.logs import Chain, Chains, Committed
from tests.simulation.cluster.checks.states import Change, PartitionKey, States
from tests.simulation.cluster.hosts.machine import Machine
from tests.simulation.zookeeper import SimulatedEnsemble


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Records that an election took back although they had been promised."""

    identity: str
    offset: int
    """From this offset on."""
    epoch: int
    """The leader epoch of the election. The records were written in earlier epochs."""
    at: float
    why: str


class Invariants:
    """Looks at all machines now and then, and at ZooKeeper whenever it changes.

    Args:
        unclean: the topics that may elect leaders out of the ISR.
        min_insync: returns the `min.insync.replicas` of a topic.

    Attributes:
        violations: what should never have happened.
        forgotten: what was promised and is no longer.
        elections: how many leaders were elected.
        asked: the offsets before which an administrator has asked to delete records.
        retained: the topics that keep so many bytes.
        starts: the latest offsets at which the log of any replica was seen to begin.
    """

    def __init__(
        self,
        ensemble: SimulatedEnsemble,
        machines: Iterable[Machine],
        now: Callable[[], float],
        unclean: set[str],
        min_insync: Callable[[str], int],
    ) -> None:
        self._machines = list(machines)
        self._now = now
        self._unclean = unclean
        self._min_insync = min_insync
        self.chains = Chains()
        self.states = States(ensemble, now, self.report, self._state_changed)
        self.violations: list[str] = []
        self.forgotten: list[Forgotten] = []
        self.elections = 0
        self.asked: dict[PartitionKey, int] = {}
        self.retained: set[str] = set()
        self.starts: dict[PartitionKey, int] = {}
        self._committed: dict[str, Committed] = {}
        self._leaders: dict[tuple[str, int], int] = {}
        self._high_watermarks: dict[tuple[str, int, Partition], tuple[int, int]] = {}
        """High watermark and partition epoch of each leader when it was last looked at."""
        self._reached: dict[str, int] = {}
        """The highest high watermark that any leader of a partition has had."""
        self._amnesia: dict[tuple[PartitionKey, int], int] = {}
        """The offsets from which on machines lack records since a loss of power, until they have left the ISR."""
        self._seen: dict[tuple[int, PartitionKey], tuple[object, ...]] = {}
        """The state of each replica when it was last looked at."""

    def report(self, what: str) -> None:
        """Note that an invariant does not hold."""
        self.violations.append(f"{self._now():.3f}: {what}")

    def committed(self, identity: str) -> Committed:
        """Return what consumers of a partition may have seen."""
        return self._committed.setdefault(identity, Committed())

    def is_excused(self, identity: str, offset: int, *, sent_at: float) -> bool:
        """Return whether a record may be gone that was sent at a time, and acknowledged at an offset."""
        events = [each for each in self.forgotten if each.identity == identity and each.offset <= offset]
        if any(sent_at <= each.at for each in events):
            return True
        # The former leader may have acknowledged it in its old epoch, after another one was elected uncleanly.
        epochs = self.chains.epochs_at(identity, offset) if events else []
        return any(epoch < each.epoch for each in events for epoch in epochs)

    def has_forgotten(self, topic: str) -> bool:
        """Return whether anything of a topic was forgotten."""
        return any(each.identity.startswith(f"{topic}-") for each in self.forgotten)

    def ask_to_delete(self, key: PartitionKey, chance: random.Random) -> int:
        """Choose the offset of a committed record, before which an administrator asks to delete all others."""
        self.look()
        end = self.committed(self.states.identity(key)).end
        offset = chance.randint(min(self.asked.get(key, 0), end), end)
        self.asked[key] = max(offset, self.asked.get(key, 0))
        return offset

    def latest_start(self, key: PartitionKey) -> int:
        """Return the latest offset at which the logs of a partition may begin.

        A leader goes on as such, and its followers delete what it has committed, until it hears of the next one.
        """
        retained = 0
        if key[0] in self.retained:
            identity = self.states.identity(key)
            retained = max(self.committed(identity).end, self._reached.get(identity, 0))
        return max(retained, self.asked.get(key, 0))

    # Losses of power

    def lose_power(self, machine: Machine) -> None:
        """Take the power from a machine, and note what its disk has lost."""
        self.look()
        before = machine.disk.ends()
        # A leader that has proposed it may be heard only later.
        joining = {
            each.key
            for other in self._machines
            for each in other.replicas
            if each.leading is not None and machine.number in each.leading.maximal_isr
        }
        machine.kill(power=True)
        there = machine.disk.ends()
        for key, state in self.states.partitions.items():
            end = there.get(key, 0)
            if (machine.number in state.isr or key in joining) and end < before.get(key, 0):
                self._amnesia[key, machine.number] = min(end, self._amnesia.get((key, machine.number), end))

    # Changes in ZooKeeper

    def _state_changed(self, change: Change) -> None:
        # First what holds up to now, so that no leader of before is missed.
        self.look(change.key, before=change)
        key, after = change.key, change.after
        if change.is_election:
            self.elections += 1
            if not change.is_clean and key[0] not in self._unclean:
                self.report(f"{key}: {after} was elected out of the ISR of {change.before}")
            mark = self._amnesia.get((key, after.leader))
            if mark is not None and self._chain_of(after.leader, key, self.states.identity(key)) is not None:
                # One that does not run yet may be elected again, after another leader has committed more.
                del self._amnesia[key, after.leader]
            if not change.is_clean:
                self._forget(change, mark, f"unclean election of {after.leader}")
            elif mark is not None:
                self._forget(change, mark, f"{after.leader} was elected after a loss of power")
                # It may still have what a leader before it had lost. The others have that only once they have followed.
                for number in set(after.isr) - {after.leader}:
                    self._amnesia.setdefault((key, number), self.committed(self.states.identity(key)).end)
        for number in [number for (marked, number) in self._amnesia if marked == key]:
            if number not in after.isr:
                del self._amnesia[key, number]

    def _forget(self, change: Change, mark: int | None, why: str) -> None:
        """Forget what the elected leader lacks."""
        identity = self.states.identity(change.key)
        committed = self.committed(identity)
        chain = self._chain_of(change.after.leader, change.key, identity)
        if chain is not None:
            missing = committed.missing_in(chain)
            offset = chain.end if missing is None else missing.base
        else:
            # It is not running: only its disk is known, if it lost power.
            offset = 0 if mark is None else mark
        committed.forget(offset)
        self.forgotten.append(Forgotten(identity, offset, change.after.leader_epoch, self._now(), why))

    def _chain_of(self, number: int, key: PartitionKey, identity: str) -> Chain | None:
        for machine in self._machines:
            if machine.number == number and machine.is_serving and machine.server is not None:
                log = machine.server.logs.get(*key)
                if log is not None and log.offline is None:
                    return self.chains.look(number, log, identity, self.committed(identity))
        return None

    # The machines

    def look(self, only: PartitionKey | None = None, before: Change | None = None) -> None:
        """Look at all replicas, or at those of one partition just before its state changes."""
        found: list[tuple[Machine, Partition, StateNode, Chain, str]] = []
        for machine in self._machines:
            for partition in machine.replicas:
                key = partition.key
                if only is not None and key != only:
                    continue
                topic, state = self.states.topics.get(key[0]), self.states.partitions.get(key)
                if before is not None:
                    state = before.before
                if topic is None or state is None or key[0] in self.states.deleting:
                    continue
                topic_id = partition.log.topic_id
                if topic_id is not None and topic_id is not topic.topic_id and topic_id != topic.topic_id:
                    continue
                identity = self.states.identity(key)
                if self._is_unchanged(machine.number, partition, state, identity):
                    continue
                chain = self.chains.look(machine.number, partition.log, identity, self.committed(identity))
                if chain.end < partition.log.log_end_offset:
                    # It cannot be read; what is wrong with it is among the contradictions, but for a failed disk.
                    del self._seen[machine.number, key]
                    continue
                found.append((machine, partition, state, chain, identity))
        # Leaders first: they know what is committed.
        for machine, partition, state, chain, identity in found:
            self._look_at_leader(machine.number, partition, state, chain, identity)
        for machine, partition, state, chain, identity in found:
            self._check_start(machine.number, partition)
            if machine.number in state.isr:
                self._look_at_member(machine.number, partition, state, chain, identity)
        if self.chains.contradictions:
            self.violations += [f"{self._now():.3f}: {each}" for each in self.chains.contradictions]
            self.chains.contradictions.clear()

    def _is_unchanged(self, number: int, partition: Partition, state: StateNode, identity: str) -> bool:
        """Return whether a replica is as it was when it was last looked at. Otherwise note what it is like now."""
        found = number, partition.key
        log, leading, committed = partition.log, partition.leading, self.committed(identity)
        now = (
            *(partition, state, identity, leading, log, log.truncations, log.log_end_offset, log.high_watermark),
            *(() if leading is None else (leading.epoch, leading.partition_epoch, len(leading.isr))),
            *(committed.changes, len(committed.batches), log.log_start_offset),
        )
        if self._seen.get(found) == now and (partition.key, number) not in self._amnesia:
            return True
        self._seen[found] = now
        return False

    def _check_start(self, number: int, partition: Partition) -> None:
        key, start, latest = partition.key, partition.log.log_start_offset, self.latest_start(partition.key)
        self.starts[key] = max(start, self.starts.get(key, 0))
        if start > latest:
            self.report(f"{key} begins at {start} on {number}, and may begin at {latest} at most (I11)")

    def _look_at_leader(self, number: int, partition: Partition, state: StateNode, chain: Chain, identity: str) -> None:
        leading = partition.leading
        if leading is None:
            return
        first = self._leaders.setdefault((identity, leading.epoch), number)
        if first != number:
            self.report(f"{identity}: {first} and {number} lead in epoch {leading.epoch} (I3)")
        self._check_high_watermark(identity, partition, leading)
        self._reached[identity] = max(partition.log.high_watermark, self._reached.get(identity, 0))
        if (state.leader, state.leader_epoch) == (number, leading.epoch):
            self.committed(identity).extend(chain, partition.log.high_watermark)

    def _look_at_member(self, number: int, partition: Partition, state: StateNode, chain: Chain, identity: str) -> None:
        key = partition.key
        missing = self.committed(identity).missing_in(chain)
        if missing is None:
            is_led = (identity, state.leader_epoch) in self._leaders
            if is_led and partition.leading is None and partition.leader_epoch == state.leader_epoch:
                # It has caught up again. Before the leader leads, its high watermark is not known yet.
                self._amnesia.pop((key, number), None)
        elif (key, number) not in self._amnesia:
            self.report(
                f"{identity}: {number} is in the ISR of {state} and lacks {missing}, which was committed; "
                f"its log ends at {chain.end}, it follows {partition.leader} in epoch {partition.leader_epoch} "
                "(I1, I2, I6)"
            )

    def _check_high_watermark(self, identity: str, partition: Partition, leading: Leader) -> None:
        found, now = (identity, leading.epoch, partition), partition.log.high_watermark
        before, partition_epoch = self._high_watermarks.get(found, (0, -1))
        if now < before:
            self.report(
                f"{identity}: the high watermark of {partition.broker_id} went back in epoch {leading.epoch} from "
                f"{before} to {now} (I4)"
            )
        needed = min(self._min_insync(partition.topic), len(leading.replicas))
        if now > before and partition_epoch == leading.partition_epoch and len(leading.isr) < needed:
            self.report(
                f"{identity}: {partition.broker_id} has committed {before} to {now} with the ISR {set(leading.isr)}, "
                f"and min.insync.replicas is {needed} (I10)"
            )
        self._high_watermarks[found] = now, leading.partition_epoch
