"""`kafkalog cluster status`: the processes of a local cluster, its controller, and what its brokers lead and follow."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from broker.cli.cluster.description import NOT_RUNNING, Description, NoClusterError, is_alive, load

if TYPE_CHECKING:
    from kafkalog.client.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata

REQUEST_MS = "5000"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `status`."""
    from broker.cli.cluster import DIRECTORY

    parser = commands.add_parser("status", help="show processes, controller, and partitions without all replicas")
    parser.add_argument("--dir", type=Path, default=Path(DIRECTORY), help=f"the directory (default: {DIRECTORY})")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print the state; 1 when the cluster is not running or no broker answers."""
    from kafkalog.client.admin.admin import Admin
    from kafkalog.client.errors import ClientError
    from kafkalog.protocol.errors import KafkaError

    try:
        description = load(arguments.dir)
    except (NoClusterError, OSError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    properties = {
        # A broker that is cut off still answers, but its metadata is old.
        "bootstrap.servers": description.informed,
        "request.timeout.ms": REQUEST_MS,
        "default.api.timeout.ms": REQUEST_MS,
    }
    try:
        with Admin(properties) as admin:
            cluster, topics = admin.describe_cluster(), admin.describe_topics()
    except (ClientError, KafkaError) as error:
        for line in _processes(description, None, {}):
            print(line)
        print(f"kafkalog: no broker answers: {error}", file=sys.stderr)
        return 1
    for line in _processes(description, cluster, topics):
        print(line)
    for line in _troubled(topics):
        print(line)
    return 0


def _processes(
    description: Description, cluster: ClusterMetadata | None, topics: dict[str, TopicMetadata]
) -> list[str]:
    """Return a line for ZooKeeper and one for each broker."""
    partitions = [each for topic in topics.values() for each in topic.partitions.values()]
    leading = Counter(each.leader for each in partitions)
    hosting = Counter(broker for each in partitions for broker in each.replicas)
    in_sync = Counter(broker for each in partitions for broker in each.isr)
    lines = [f"zookeeper  {description.zookeeper}"]
    for entry in description.brokers:
        is_running = entry.pid != NOT_RUNNING and is_alive(entry.pid)
        state = f"process {entry.pid}" if is_running else "not running"
        if entry.cut:
            state += f", {entry.connection}"
        line = f"broker {entry.broker_id}   127.0.0.1:{entry.port}  {state}"
        if cluster is not None:
            number = entry.broker_id
            line += f", leads {leading[number]} partitions, in sync with {in_sync[number]} of {hosting[number]}"
            if cluster.controller_id == number:
                line += ", controller"
        lines.append(line)
    return lines


def _troubled(topics: dict[str, TopicMetadata]) -> list[str]:
    """Return a line for each partition without a leader, or with replicas that are not in sync."""

    def line(topic: str, each: PartitionMetadata) -> str:
        leader = "no leader" if each.leader < 0 else f"leader {each.leader}"
        return f"{topic}-{each.partition}  {leader}, replicas {_ids(each.replicas)}, in sync {_ids(each.isr)}"

    return [
        line(name, each)
        for name, topic in sorted(topics.items())
        for _, each in sorted(topic.partitions.items())
        if each.leader < 0 or set(each.isr) != set(each.replicas)
    ]


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
