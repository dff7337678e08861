"""The commands of the broker."""

from __future__ import annotations

from kafkalog.cli.command import Command

COMMANDS = (
    Command("server", "run a broker", "broker.cli.server", 10),
    Command("zookeeper", "run a ZooKeeper server", "broker.cli.zookeeper.start", 15),
    Command("cluster", "run a cluster on this machine", "broker.cli.cluster", 17),
    Command("log", "look into log files", "broker.cli.log", 90),
)
