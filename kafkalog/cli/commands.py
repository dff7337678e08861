"""The commands of the clients."""

from __future__ import annotations

from kafkalog.cli.command import Command

COMMANDS = (
    Command("topics", "create, list, describe, alter and delete topics", "kafkalog.cli.admin.topics", 20),
    Command(
        "configs",
        "describe and alter the configurations of topics, brokers and groups",
        "kafkalog.cli.admin.configs",
        30,
    ),
    Command(
        "groups", "list, describe and delete consumer groups, reset their offsets", "kafkalog.cli.admin.groups", 40
    ),
    Command(
        "offsets",
        "move offsets of groups between ZooKeeper and Kafka, or to files",
        "kafkalog.cli.admin.offsets",
        45,
    ),
    Command(
        "transactions",
        "list, describe and abort transactions, find hanging ones",
        "kafkalog.cli.admin.transactions",
        50,
    ),
    Command(
        "reassign",
        "move partitions between brokers, and follow how far that is",
        "kafkalog.cli.admin.reassign",
        52,
    ),
    Command("elect", "elect leaders of partitions", "kafkalog.cli.admin.elect", 54),
    Command("isr", "tell why leaders and in-sync replicas changed", "kafkalog.cli.admin.isr", 55),
    Command(
        "delete-records",
        "delete the records of partitions before given offsets",
        "kafkalog.cli.admin.delete_records",
        56,
    ),
    Command(
        "delegation-tokens",
        "create, describe, renew and expire delegation tokens",
        "kafkalog.cli.admin.security.delegation_tokens",
        57,
    ),
    Command("get-offsets", "print offsets of partitions by time", "kafkalog.cli.admin.get_offsets", 58),
    Command("log-dirs", "describe the log directories of brokers", "kafkalog.cli.admin.log_dirs", 59),
    Command("acls", "list, add and remove access control lists", "kafkalog.cli.admin.security.acls", 59),
    Command("features", "describe the features of a cluster", "kafkalog.cli.admin.features", 59),
    Command("produce", "write lines of standard input to a topic", "kafkalog.cli.transfer.produce", 60),
    Command("consume", "print the records of a topic", "kafkalog.cli.transfer.consume", 70),
    Command("mirror", "mirror topics from one cluster to another", "kafkalog.mirror.actions", 75),
    Command("perf", "measure producing and consuming", "kafkalog.cli.transfer.perf", 110),
)
