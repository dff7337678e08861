"""One run of the simulator: a cluster, its clients and its faults, decided by a seed.

`python -m tests.simulation.cluster.schedule SEED [COUNT]` runs seeds and prints what each of them did. `--log` prints
the brokers' logs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import hashlib
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.coordinator.state_topic import partition_of
from broker.metadata.znodes import paths
from tests.simulation.cluster.checks.invariants import Invariants
from tests.simulation.cluster.checks.unexpected import UnexpectedErrors
from tests.simulation.cluster.checks.verdict import Verdict, seen_in_part, start_of, unrest, values_of
from tests.simulation.cluster.clients.administrator import Administrator
from tests.simulation.cluster.clients.client import Client
from tests.simulation.cluster.clients.consumers import Consumer, read_all_committed
from tests.simulation.cluster.clients.history import ACKS_ALL, History, PartitionKey
from tests.simulation.cluster.clients.members import TEAM, Member, Team
from tests.simulation.cluster.clients.producers import Producer
from tests.simulation.cluster.clients.transactions import Committer, Transactor
from tests.simulation.cluster.faults import Faults
from tests.simulation.cluster.hosts.disk import close_blank
from tests.simulation.cluster.hosts.machine import Machine
from tests.simulation.cluster.hosts.world import World
from tests.simulation.cluster.plan import CHOICES, SETTINGS, Plan
from tests.simulation.network import SimulatedNetwork
from tests.simulation.zookeeper import SimulatedEnsemble

DATA, MONEY, LOOSE = "data", "money", "loose"
"""The topics: of plain producers, of transactions, and one that allows unclean elections."""
OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
PARTITIONS = 2
LOOK_S = 0.1
"""The interval at which all machines are looked at, beside each change in ZooKeeper."""
REST_S = 150.0
"""A cluster without faults is at rest after so long (I8)."""


@dataclass(slots=True)
class Outcome:
    """The outcome of a schedule.

    Attributes:
        faults: what is wrong; nothing if all is well.
        digest: the same for each run of a seed.
    """

    seed: int
    plan: Plan
    faults: list[str] = field(default_factory=list)
    digest: str = ""
    virtual_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)


Plant = Callable[["Cluster"], None]
Once = Callable[[], Coroutine[Any, Any, bool]]
"""One attempt of a client; returns whether all of it was answered."""


class Cluster:
    """Brokers, ZooKeeper and clients in one world.

    Args:
        directory: an empty one, for the disks.
        plant: called before the start, to plant a defect.
        choices: how many kinds of choices the seed makes, see `CHOICES`.
    """

    def __init__(self, seed: int, directory: Path, plant: Plant = lambda cluster: None, choices: int = CHOICES) -> None:
        self.seed = seed
        chance = self.chance = random.Random(seed)
        self.plan = Plan.of(seed, chance, choices)
        self.world = World()
        self.kernel = self.world.loop("kernel")
        self.network = SimulatedNetwork(self.kernel, random.Random(chance.getrandbits(64)))
        self.ensemble = SimulatedEnsemble(self.kernel, random.Random(chance.getrandbits(64)))
        # As the client of ZooKeeper does. Seeds of before expect the reverse.
        self.ensemble.listeners_first = choices >= 4
        self.machines = [
            Machine(
                self.world,
                self.kernel,
                self.network,
                self.ensemble,
                number,
                directory,
                self.plan.settings(self.plan.protocol),
                self.plan.settings(self.plan.upgrade or self.plan.protocol),
                random.Random(chance.getrandbits(64)),
            )
            for number in range(1, self.plan.brokers + 1)
        ]
        self.history = History()
        self.ended = asyncio.Event()
        self.invariants = Invariants(
            self.ensemble,
            self.machines,
            self.kernel.time,
            {LOOSE},
            lambda topic: 1 if topic == LOOSE else self.plan.min_insync,
        )
        self.clients: list[Client] = []
        self.trace = hashlib.sha256()
        plant(self)
        self._final_faults: list[str] = []
        self._work: list[asyncio.Task[None]] = []

    # The parts

    def _client(self, name: str, pace: float | None = None) -> Client:
        client = Client(
            self.world.loop(name),
            self.network,
            self.machines,
            self.history,
            name,
            self.chance.getrandbits(64),
            pace or self.plan.pace,
        )
        self.clients.append(client)
        return client

    def _begin(self, client: Client, work: Any) -> None:
        self._work.append(client.loop.create_task(work))

    def _make_clients(self) -> None:
        topics = [DATA, MONEY, *([LOOSE] if self.plan.has_loose_topic else [])]
        self.partitions = [(topic, index) for topic in topics for index in range(PARTITIONS)]
        plain = [key for key in self.partitions if key[0] != MONEY]
        self.administrator = Administrator(
            self._client("admin", self.plan.admin_pace),
            self.partitions,
            self.plan.factor,
            self.ended,
            self._deletable if self.plan.deletes_records else None,
            {each.number: each.disk.directories for each in self.machines} if self.plan.moves_logs else {},
            adds_partitions=self.plan.adds_partitions,
        )
        self.producers = [
            Producer(self._client("once"), plain, ACKS_ALL, self.ended, is_idempotent=True),
            Producer(self._client("all"), plain, ACKS_ALL, self.ended, is_idempotent=False),
            Producer(self._client("quick"), plain, 1, self.ended, is_idempotent=True),
        ]
        self.transactors = [
            Transactor(self._client(f"txn{number}"), MONEY, PARTITIONS, self.ended) for number in range(2)
        ]
        self.committer = Committer(self._client("group"), DATA, self.ended, self._may_lack("group"))
        team = Team(DATA, PARTITIONS, self._may_lack(TEAM))
        self.members = [
            Member(self._client(f"member{number}", min(self.plan.pace, 2.0)), team, self.ended)
            for number in range(3 if self.plan.has_members else 0)
        ]
        self.consumers = [
            Consumer(
                self._client(f"reader{isolation}"),
                self.partitions,
                isolation,
                self.ended,
                self._is_excused,
                self.invariants.latest_start,
                self.invariants.starts,
            )
            for isolation in range(2)
        ]

    def _may_lack(self, group: str) -> Callable[[int], bool]:
        partition = OFFSETS, partition_of(group, int(SETTINGS["offsets.topic.num.partitions"]))
        return lambda number: self._may_lack_offsets(partition, number)

    def _may_lack_offsets(self, group: PartitionKey, number: int) -> bool:
        """Return whether a broker may answer that less was committed than what was acknowledged.

        The partition may have lost records. Or its leadership was moved away from the broker while that was registered,
        and the order does not reach it: it goes on as before until it compares its roles with ZooKeeper. In Apache
        Kafka it goes on until the order reaches it. A broker whose registration has ended answers nothing: its lease
        has ended before.
        """
        state = self.invariants.states.partitions.get(group)
        was_moved = state is not None and state.leader != number and self.ensemble.exists(paths.broker_id(number))
        return was_moved or self.invariants.has_forgotten(OFFSETS)

    def _deletable(self) -> tuple[PartitionKey, int]:
        chance = self.administrator.client.chance
        key = chance.choice([key for key in self.partitions if key[0] == DATA])
        return key, self.invariants.ask_to_delete(key, chance)

    def _is_excused(self, key: PartitionKey, offset: int) -> bool:
        # Something else may have been written at the offsets meanwhile, so any loss of the partition excuses.
        identity = self.invariants.states.identity(key)
        return any(each.identity == identity for each in self.invariants.forgotten)

    # The run

    def run(self) -> Outcome:
        """Run the schedule. It ends with the first violation."""
        outcome = Outcome(self.seed, self.plan)
        errors = UnexpectedErrors()
        with errors.watched():
            try:
                self.world.run(self._main(), self.kernel)
            except ScheduleFailedError:
                pass
            finally:
                for machine in self.machines:
                    machine.kill()
        outcome.faults = [*self.invariants.violations, *self.world.errors, *errors.found]
        if not outcome.faults:
            outcome.faults = self._final_faults
        outcome.virtual_s = self.world.now
        self.trace.update(repr((outcome.faults, self.world.now, self.ensemble.transaction)).encode())
        outcome.digest = self.trace.hexdigest()
        outcome.counts = {
            **self.faults.counts,
            "elections": self.invariants.elections,
            "forgotten": len(self.invariants.forgotten),
            "done": self.history.done,
            "acknowledged": sum(each.acked_at is not None for each in self.history.sent.values()),
            "transactions": sum(len(each.committed) for each in self.transactors),
            "reassigned": self.administrator.reassigned,
            "deleted": self.administrator.deleted,
            "moved": self.administrator.moved,
            "starts": sum(self.invariants.starts.values()),
        }
        return outcome

    async def _main(self) -> None:
        self._make_clients()
        plan = self.plan
        self.faults = Faults(
            self.kernel,
            self.network,
            self.ensemble,
            self.machines,
            [client.name for client in self.clients],
            self.invariants,
            random.Random(self.chance.getrandbits(64)),
            loses_power=plan.loses_power,
            loses_roles=plan.loses_roles,
            disks_fail=plan.disks_fail,
            cuts_controller=plan.cuts_controller,
            share=plan.fault_share,
        )
        for machine in self.machines:
            machine.start()
        looking = self.kernel.create_task(self._look())
        await self._on(self.administrator.client, self._make_topics())
        for each in self.producers:
            self._begin(each.client, each.work())
        for transactor in self.transactors:
            self._begin(transactor.client, transactor.work())
        self._begin(self.committer.client, self.committer.work())
        for consumer in self.consumers:
            self._begin(consumer.client, consumer.work())
        for member in self.members:
            self._begin(member.client, member.work())
        self._begin(self.administrator.client, self.administrator.work())
        await self._until(self.faults.run(plan.seconds))
        await self._until(self.faults.heal())
        await asyncio.sleep(2.0)
        self.ended.set()
        await self._until(self._come_to_rest())
        # A commit would hide that the offset before it is gone.
        await self._until(self._get_done([(self.committer.client, self.committer.look_once)]))
        await self._until(self._make_progress())
        await self._until(self._come_to_rest())
        looking.cancel()
        self.invariants.look()
        self._stop_if_violated()
        self._final_faults = await self._judge()

    async def _make_topics(self) -> None:
        for topic in dict.fromkeys(topic for topic, _ in self.partitions):
            config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"} if topic == LOOSE else {}
            if topic == DATA and self.plan.retains:
                config = {"retention.bytes": "1024", "segment.bytes": "512"}
                self.invariants.retained.add(DATA)
            await self.administrator.create(topic, PARTITIONS, config)

    async def _on(self, client: Client, work: Any) -> None:
        """Run work on a client's loop until it has ended."""
        task = client.loop.create_task(work)
        await self._until(_ended(task))
        task.result()

    async def _until(self, work: Any) -> None:
        """Wait for work of the kernel, unless something is violated meanwhile."""
        task = self.kernel.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=1.0)
            self._stop_if_violated()
        task.result()

    def _stop_if_violated(self) -> None:
        if self.invariants.violations or self.world.errors or self.history.complaints:
            self.invariants.violations += self.history.complaints
            self.history.complaints.clear()
            raise ScheduleFailedError

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.invariants.look()
            self._note_trace()

    def _note_trace(self) -> None:
        ends = [
            (machine.number, partition.key, partition.leader_epoch, partition.log.log_end_offset)
            for machine in self.machines
            if machine.is_serving and machine.server is not None
            for partition in machine.server.replicas
        ]
        self.trace.update(repr((self.world.now, self.ensemble.transaction, self.history.done, ends)).encode())

    async def _come_to_rest(self) -> None:
        """Wait until the clients have ended and the cluster is at rest (I8)."""
        end = self.kernel.time() + REST_S
        while True:
            working = [task for task in self._work if not task.done()]
            found = unrest(self.ensemble, self.machines, self.invariants)
            if not working and not found:
                break
            if self.kernel.time() > end:
                self.invariants.report(f"no rest after {REST_S} s: {found}, {len(working)} clients at work (I8)")
                return
            await asyncio.sleep(0.5)
        for task in self._work:
            task.result()

    async def _make_progress(self) -> None:
        """See that each client gets something done, now that everything works (I8)."""
        await self._get_done([
            *((each.client, each.send_one) for each in self.producers),
            *((each.client, each.transact_once) for each in self.transactors),
            (self.committer.client, self.committer.commit_once),
            *((each.client, each.step) for each in self.members),
        ])  # fmt: skip

    async def _get_done(self, works: list[tuple[Client, Once]]) -> None:
        """Have each client try its work until it is answered."""
        tasks = [client.loop.create_task(_again(client, once)) for client, once in works]
        _, late = await asyncio.wait(tasks, timeout=REST_S)
        if late:
            self.invariants.report(f"{len(late)} clients got nothing done in {REST_S} s (I8)")

    async def _judge(self) -> list[str]:
        values: dict[PartitionKey, dict[int, bytes]] = {}
        starts: dict[PartitionKey, int] = {}
        found: list[str] = []
        for key in [*self.partitions, *self._internal()]:
            state = self.invariants.states.partitions[key]
            members = [machine for machine in self.machines if machine.number in state.isr]
            # A broker that was killed may have deleted records again, as Apache Kafka's.
            starts[key] = max(start_of(machine, key) for machine in members)
            copies = {machine.number: values_of(machine, key, starts[key]) for machine in members}
            values[key] = copies[state.leader]
            for number, copy in copies.items():
                if copy != copies[state.leader]:
                    found.append(f"{key} on {number} differs from {state.leader} (I2)")
        plain = {key: each for key, each in values.items() if not key[0].startswith("__")}
        found += Verdict(self.history, self.invariants, plain, starts).faults()
        if not (self.invariants.has_forgotten(MONEY) or self.invariants.has_forgotten(TRANSACTIONS)):
            # A transaction of which a part was forgotten is no longer whole, in Kafka neither.
            found += await self._judge_transactions()
        self.trace.update(repr(sorted((key, sorted(each.items())) for key, each in values.items())).encode())
        return found

    def _internal(self) -> list[PartitionKey]:
        return [key for key in self.invariants.states.partitions if key[0] in (OFFSETS, TRANSACTIONS)]

    async def _judge_transactions(self) -> list[str]:
        client = self.consumers[0].client
        seen: list[list[str]] = []
        try:
            await self._on(client, read_all_committed(client, MONEY, PARTITIONS, REST_S, seen))
        except TimeoutError:
            return [f"a transaction of {MONEY} stays open (I9)"]
        committed = set.union(*(each.committed for each in self.transactors))
        unknown = set.union(*(each.unknown for each in self.transactors))
        return seen_in_part(MONEY, seen, committed, unknown)


class ScheduleFailedError(Exception):
    """An invariant does not hold; the rest of the schedule is left out."""


async def _ended(task: asyncio.Task[Any]) -> None:
    while not task.done():
        await asyncio.sleep(0.05)


async def _again(client: Client, once: Once) -> None:
    while not await once():
        await client.pause()


def run_schedule(
    seed: int, directory: Path | None = None, plant: Plant = lambda cluster: None, choices: int = CHOICES
) -> Outcome:
    """Run the schedule of a seed in `directory`, or in one in memory that is deleted afterwards.

    `choices` says how many kinds of choices the seed makes, see `CHOICES`.
    """
    in_memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="kafkalog-cluster-", dir=directory or in_memory) as root:
        was_enabled = gc.isenabled()
        # A schedule's own garbage is little, and no collection has to walk over the modules.
        gc.disable()
        gc.freeze()
        blank: list[int] = []
        try:
            return _run(Cluster(seed, Path(root), plant, choices), blank)
        finally:
            _collect()
            close_blank(blank)
            gc.unfreeze()
            if was_enabled:
                gc.enable()


def _collect() -> None:
    """Collect the processes. Their coroutines end here, without a loop, and what they say about that is no matter."""
    hook, sys.unraisablehook = sys.unraisablehook, lambda unraisable: None
    try:
        # Coroutines that end in the first one leave what they held to the next one.
        while gc.collect():
            pass
    finally:
        sys.unraisablehook = hook


def _run(cluster: Cluster, blank: list[int]) -> Outcome:
    try:
        return cluster.run()
    finally:
        for machine in cluster.machines:
            blank += machine.blank


def main() -> int:
    """Run seeds from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further seed after so long")
    parser.add_argument("--choices", type=int, default=CHOICES, help="how many kinds of choices a seed makes")
    options = parser.parse_args()
    if options.log:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(name)s %(message)s")
    failed, begun, done = 0, time.monotonic(), 0
    for seed in range(options.first, options.first + options.count):
        if time.monotonic() - begun > options.seconds:
            break
        started = time.process_time()
        outcome = run_schedule(seed, choices=options.choices)
        done += 1
        if outcome.faults:
            failed += 1
        if outcome.faults or not options.quiet:
            print(
                f"{seed} {'FAILED' if outcome.faults else 'ok'} {time.process_time() - started:.2f} s for "
                f"{outcome.virtual_s:.0f} s {outcome.plan} {outcome.counts} {outcome.digest[:12]}"
            )
            for each in outcome.faults[:8]:
                print("   ", each[:1500])
            sys.stdout.flush()
    print(f"{done} schedules, {failed} failed, {done / (time.process_time()) * 60:.0f} a minute of CPU")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
