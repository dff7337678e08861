"""kafkalog and Apache Kafka brokers, each as its user starts it, under one interface."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from benchmarks.peers.processes import cpu_seconds, resident_bytes
from benchmarks.recording import findings
from peers.brokers import kafka
from tests.support.kafkalog_broker import KafkalogBroker

OURS = findings.OURS
PEERS = {f"Kafka {version}": version for version in kafka.VERSIONS}
APACHE = {name: f"Apache {name}" for name in PEERS}
"""The names of the peers in results."""
NAMES = (OURS, *PEERS)
_ADMIN_DEADLINE_S = 30.0
_LATEST: Any = OffsetSpec.latest()
_RETRIED = (KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION)


def end_offsets(admin: AdminClient, topic: str, partitions: int) -> list[int]:
    """Return the end offsets of a topic's partitions."""
    wanted = {TopicPartition(topic, number): _LATEST for number in range(partitions)}
    deadline = time.monotonic() + _ADMIN_DEADLINE_S
    while True:
        try:
            return [int(future.result(_ADMIN_DEADLINE_S).offset) for future in admin.list_offsets(wanted).values()]
        except KafkaException as error:
            # Apache Kafka's brokers answer UNKNOWN_LEADER_EPOCH for a moment after a start.
            if error.args[0].code() not in _RETRIED or time.monotonic() >= deadline:
                raise
            time.sleep(0.1)


@dataclass(frozen=True)
class Broker:
    """A running broker: where it listens and which process it is."""

    name: str
    bootstrap: str
    pid: int

    def cpu_seconds(self) -> float:
        """Return the CPU time of the process; see `cpu_seconds`."""
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Return the memory of the process; see `resident_bytes`."""
        return resident_bytes(self.pid)

    def admin(self) -> AdminClient:
        """Make an admin client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 3})

    def create_topic(self, topic: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until every partition has a leader."""
        admin = self.admin()
        wanted = NewTopic(topic, partitions, 1, config=dict(configs or {}))
        admin.create_topics([wanted])[topic].result(_ADMIN_DEADLINE_S)
        end = time.monotonic() + _ADMIN_DEADLINE_S
        while True:
            known = admin.list_topics(topic, timeout=10).topics[topic]
            if len(known.partitions) == partitions and all(p.leader >= 0 for p in known.partitions.values()):
                return
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name}: {topic} has no leaders")
            time.sleep(0.02)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the partitions' end offsets."""
        return end_offsets(self.admin(), topic, partitions)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(_ADMIN_DEADLINE_S)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of every benchmark that runs brokers."""
    parser.add_argument("--brokers", nargs="+", default=list(NAMES), choices=NAMES, metavar="NAME", help=f"of {NAMES}")
    parser.add_argument("--dir", type=Path, help="where the brokers keep their data (default: a temporary directory)")
    parser.add_argument(
        "--override", action="append", default=[], metavar="KEY=VALUE", help="a setting of the kafkalog broker"
    )
    parser.add_argument("--quick", action="store_true", help="one run of fewer records: a look, not a measurement")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case on each broker, in turns")


def stop_when_told() -> None:
    """Have SIGTERM end the benchmark as an exception does, so that its brokers are stopped too."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


@contextmanager
def workspace(directory: Path | None) -> Iterator[tuple[Path, ExitStack]]:
    """Make a directory for brokers below `directory`; at the end stop what the stack holds, and remove it."""
    stop_when_told()
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=directory))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        yield root, stack


@contextmanager
def running(names: Sequence[str], directory: Path | None, overrides: Sequence[str] = ()) -> Iterator[list[Broker]]:
    """Start the named brokers with the defaults that their distributions ship; stop them at the end."""
    with workspace(directory) as (root, stack):
        brokers = []
        for name in names:
            home = root / name.replace(" ", "-")
            if name == OURS:
                ours = stack.enter_context(KafkalogBroker(home, dict(item.split("=", 1) for item in overrides)))
                brokers.append(Broker(name, ours.bootstrap, ours.pid))
            else:
                peer = stack.enter_context(kafka.ApacheKafka(PEERS[name], directory=home))
                brokers.append(Broker(name, peer.bootstrap, peer.pid))
        yield brokers
