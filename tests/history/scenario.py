"""Run the histories of seeds against a broker and check them.

    python -m tests.history.scenario --first 0 --count 50
    python -m tests.history.scenario --seed 17                     one
    python -m tests.history.scenario --count 3 --broker apache     against Apache Kafka
    python -m tests.history.scenario --count 3 --broker cluster    against three brokers over ZooKeeper

A seed determines the clients and their faults (`plan`). The interleaving of their requests depends on the machine, so
repeat a failed seed several times. The history of a failed seed is kept, and its directory is printed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.history import brokers, clients
from tests.history.checker import Violation, check
from tests.history.events import Event, Isolation, Outcome, merge
from tests.history.plan import BROKER, Act, ClientSpec, Fault, Plan, Role, plan
from tests.history.topics import Topics

PROGRESS_S = 90.0
"""The longest time without acknowledged records, and the limit of other waits."""
ENDING_S = 12.0
"""The time in which a client must end. librdkafka hangs for minutes in send_offsets_to_transaction, past its time-out,
if a broker dies during the call. The operation of a killed client remains unknown, which is correct."""
DRAINING_S = 15.0
"""The same limit for a copier that must first reach the end of its input."""
_ACKNOWLEDGED = b'"action":"send","outcome":"ok"'

_processes = multiprocessing.get_context("forkserver")
# Clients are forked from a process that has imported everything: milliseconds each.
_processes.set_forkserver_preload(["tests.history.clients"])


class StuckError(AssertionError):
    """Something did not happen in time."""


@dataclass
class Result:
    """The result of a seed."""

    seed: int
    violations: list[Violation]
    events: Counter[str]
    seconds: float
    directory: Path


@dataclass
class Running:
    """The processes of one history."""

    spec: ClientSpec
    process: ForkServerProcess
    told_to_end: bool = False
    zombies: list[ForkServerProcess] = field(default_factory=list)


class Scenario:
    """One seed with running brokers."""

    def __init__(self, the_plan: Plan, broker: brokers.HistoryBroker, directory: Path) -> None:
        self.plan = the_plan
        self.broker = broker
        self.directory = directory
        self.running: dict[str, Running] = {}
        self._read: dict[Path, int] = {}
        self._acknowledged = 0
        self._topics = Topics(broker.bootstrap)

    def run(self) -> list[Event]:
        """Run the whole history, and return its events.

        Raises:
            StuckError: The history does not end.
        """
        topics = (self.plan.source, self.plan.copy)
        self._topics.create(topics, self.plan.partitions)
        try:
            for spec in self.plan.clients:
                self.running[spec.name] = Running(spec, self._start(spec))
            for fault in self.plan.faults:
                self._await_records(fault.after)
                self._inflict(fault)
            self._await_records(self.plan.records)
            self.broker.settle(topics)
            self._end()
        finally:
            for each in self.running.values():
                for process in (each.process, *each.zombies):
                    process.kill()
                    process.join()
        self._topics.delete(topics)
        return merge(path.read_bytes() for path in sorted(self.directory.glob("*.jsonl")))

    def _start(self, spec: ClientSpec) -> ForkServerProcess:
        process = _processes.Process(target=clients.run, args=(spec, self.broker.bootstrap, self.directory))
        process.start()
        return process

    def _await(self, holds: Callable[[], bool], what: str, deadline_s: float = PROGRESS_S) -> None:
        end = time.monotonic() + deadline_s
        while not holds():
            self._revive()
            if time.monotonic() > end:
                raise StuckError(f"waited {deadline_s:g} s in vain: {what}")
            time.sleep(0.01)

    def _await_records(self, count: int) -> None:
        self._await(lambda: self._count() >= count, f"{count} acknowledged records")

    def _revive(self) -> None:
        """Replace a client that could not continue, unless it was asked to end anyway."""
        for each in self.running.values():
            if not each.told_to_end and each.process.exitcode in (clients.FENCED, clients.HANGING):
                self._replace(each)

    def _count(self) -> int:
        for path in self.directory.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            self._acknowledged += whole.count(_ACKNOWLEDGED)
        return self._acknowledged

    def _inflict(self, fault: Fault) -> None:
        if fault.target.startswith(BROKER):
            self.broker.inflict(fault.target, fault.act)
            return
        target = self.running[fault.target]
        match fault.act:
            case Act.KILL:
                self._replace(target)
            case Act.END:
                target.process.kill()
                target.process.join()
            case Act.FREEZE:
                self._signal(target.process, signal.SIGSTOP)
                target.zombies.append(target.process)
                target.spec = target.spec.again()
                target.process = self._start(target.spec)
            case Act.THAW:
                for zombie in target.zombies:
                    self._signal(zombie, signal.SIGCONT)

    def _replace(self, target: Running) -> None:
        target.told_to_end = False
        target.process.kill()
        target.process.join()
        target.spec = target.spec.again()
        target.process = self._start(target.spec)

    def _signal(self, process: ForkServerProcess, number: signal.Signals) -> None:
        if process.is_alive() and process.pid is not None:
            os.kill(process.pid, number)

    def _of(self, *roles: Role) -> list[Running]:
        return [each for each in self.running.values() if each.spec.role in roles]

    def _end(self) -> None:
        """End the producers, decide their open transactions, let copiers reach the end, then end the readers."""
        for each in self.running.values():
            for zombie in each.zombies:
                zombie.kill()
                zombie.join()
        self._stop(self._of(Role.WRITE, Role.TRANSACT))
        self._settle(self.plan.source)
        copiers = self._of(Role.COPY)
        self._stop([each for each in copiers if not each.spec.drains])
        for each in copiers:
            if each.spec.drains:
                self._drain(each)
        self._settle(self.plan.copy)
        # Readers make their final sessions, which must end. Only members of groups may hang.
        self._stop(self._of(Role.READ), PROGRESS_S)
        self._stop(self._of(Role.GROUP))
        for each in self._of(Role.READ, Role.GROUP):
            # librdkafka's commit has no time-out. It hangs for long if the coordinator has moved meanwhile.
            hung = each.spec.role is Role.GROUP and each.process.exitcode == -signal.SIGKILL
            if each.process.exitcode and not hung:
                raise StuckError(f"{each.spec.client} ended with {each.process.exitcode}")

    def _stop(self, all_of: list[Running], patience_s: float = ENDING_S) -> None:
        """Ask clients to end; kill those that do not end in time. Their open operations remain unknown."""
        for each in all_of:
            self._await(lambda each=each: self._has_begun(each), f"{each.spec.name} has begun")  # type: ignore[misc]
            each.told_to_end = True
            each.process.terminate()
        end = time.monotonic() + patience_s
        for each in all_of:
            each.process.join(max(0.0, end - time.monotonic()))
            if each.process.is_alive():
                each.process.kill()
                each.process.join()

    def _has_begun(self, client: Running) -> bool:
        """Tell whether a client can be asked to end; one that was killed before it began cannot."""
        return not client.process.is_alive() or (self.directory / clients.file_name(client.spec)).exists()

    def _drain(self, copier: Running) -> None:
        """Let one copier reach the end of the input; replace it if it cannot continue."""
        end = time.monotonic() + PROGRESS_S
        while time.monotonic() < end:
            self._stop([copier], DRAINING_S)
            if copier.process.exitcode == 0:
                return
            self._replace(copier)
        raise StuckError(f"{copier.spec.name} never reached the end of {self.plan.source}")

    def _settle(self, topic: str) -> None:
        def settled() -> bool:
            ends = [self._topics.ends(topic, self.plan.partitions, isolation) for isolation in Isolation]
            return ends[0] == ends[1]

        self._await(settled, f"every transaction in {topic} is decided: the last stable offset is the high watermark")


def run_seed(seed: int, broker: brokers.HistoryBroker, root: Path, run: str = "h", copiers: int = 2) -> Result:
    """Run and check one seed. Its files are in a directory of `root`, which is deleted on success."""
    begun = time.monotonic()
    the_plan = plan(seed, run, copiers, broker.count)
    directory = Path(tempfile.mkdtemp(prefix=f"history-{seed}-", dir=root))
    events = Scenario(the_plan, broker, directory).run()
    violations = check(events, {the_plan.copy: the_plan.source})
    counts = Counter(f"{event.action} {event.outcome}" for event in events)
    for fault in the_plan.faults:
        counts[f"{'broker' if fault.target.startswith(BROKER) else 'client'} {fault.act}"] += 1
    counts["copied"] = sum(bool(event.source) for event in events if event.outcome is Outcome.INVOKE)
    if not violations:
        shutil.rmtree(directory)
    return Result(seed, violations, counts, time.monotonic() - begun, directory)


def main() -> int:
    """Run the command line; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description="Histories of clients of a broker that is killed, checked.")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--copiers", type=int, default=2, choices=(1, 2), help="at most")
    parser.add_argument("--broker", default="kafkalog", help="kafkalog, cluster, apache or apache:VERSION")
    parser.add_argument("--directory", type=Path, help="where the broker and the histories keep their files")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    seeds = [args.seed] if args.seed is not None else range(args.first, args.first + args.count)
    root = args.directory or Path(tempfile.mkdtemp(prefix="kafkalog-history-"))
    root.mkdir(parents=True, exist_ok=True)
    broker = brokers.start(args.broker, root / "broker")
    failed = 0
    try:
        for seed in seeds:
            result = run_seed(seed, broker, root, copiers=args.copiers)
            told = ", ".join(f"{count} {name}" for name, count in sorted(result.events.items()))
            print(f"seed {seed}: {len(result.violations)} violations in {result.seconds:.1f} s ({told})", flush=True)
            for violation in result.violations[:20]:
                print(f"  {violation}")
            if result.violations:
                failed += 1
                print(f"  the history is in {result.directory}", flush=True)
    finally:
        broker.close()
    if not failed and args.directory is None:
        shutil.rmtree(root, ignore_errors=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
