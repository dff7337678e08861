"""`kafkalog cluster`: ZooKeeper and several brokers on this machine, to try things out and to practise failures.

- `start`       `kafkalog cluster start`
- `status`      `kafkalog cluster status`
- `kill`        `kafkalog cluster kill`
- `partition`   `kafkalog cluster partition` and `kafkalog cluster heal`
- `supervisor`  starts the processes, watches them and stops them
- `proxies`     through which brokers reach each other and ZooKeeper
- `description` the file from which the other commands know the cluster
"""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command

COMMANDS = ("start", "status", "kill", "partition")

EXAMPLES = """\
examples:
  kafkalog cluster start --brokers 3
  kafkalog cluster status
  kafkalog cluster kill 2 --hard
  kafkalog cluster start 2
  kafkalog cluster partition 3 --for 20
  kafkalog cluster heal 3

The cluster lives in a directory (--dir), in which each process also writes its messages: broker-1.log, zookeeper.log.
It is for one machine and for trying things out. A cluster in production has a ZooKeeper ensemble, and its brokers are
started with `kafkalog server start --override zookeeper.connect=...`.
"""
DIRECTORY = "kafkalog-cluster"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `cluster` and its commands."""
    modules = [f"broker.cli.cluster.{name}" for name in COMMANDS]
    add_command(subparsers, "cluster", "run a cluster on this machine", EXAMPLES, modules=modules)
