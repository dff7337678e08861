"""Groups in ZooKeeper for `list` and `describe`, as kafka-consumer-groups.sh showed them with `--zookeeper`."""

from __future__ import annotations

import argparse
from typing import Any

from kafkalog.cli.admin.groups.common import (
    OF_PARTITION,
    OF_POSITION,
    Column,
    log_ends,
    open_zookeeper,
    selected_in_zookeeper,
    show,
)
from kafkalog.cli.shared.client_options import UsageError, admin_config, complain

COLUMNS = (*OF_PARTITION, *OF_POSITION, Column("OWNER", 0, "owner"))


def list_all(arguments: argparse.Namespace) -> int:
    """Print the names of the groups in ZooKeeper."""
    from kafkalog.client.zookeeper.groups import list_groups

    if arguments.state is not None or arguments.type is not None:
        raise UsageError("--state and --type do not go with --zookeeper: groups in ZooKeeper have neither")
    with open_zookeeper(arguments) as session:
        names = session.run(list_groups())
    if arguments.json:
        show([Column("GROUP", 25, "group")], [[name] for name in names], as_json=True)
    else:
        for name in names:
            print(name)
    return 0


def describe(arguments: argparse.Namespace) -> int:
    """Print offset, lag and owner of each partition; return 1 if a group does not exist."""
    from kafkalog.client.admin.groups import GroupAdmin
    from kafkalog.client.zookeeper.groups import read_group

    if arguments.members or arguments.state:
        raise UsageError("--members and --state do not go with --zookeeper; OWNER names the member of each partition")
    with open_zookeeper(arguments) as session:
        groups = {name: session.run(read_group(name)) for name in selected_in_zookeeper(session, arguments)}
    partitions = {tp for group in groups.values() if group for tp in (*group.offsets, *group.owners)}
    with GroupAdmin(admin_config(arguments)) as admin:
        ends = log_ends(admin, partitions) if partitions else {}
    for name, group in groups.items():
        if group is None:
            complain(f"Consumer group '{name}' does not exist in ZooKeeper.")
            continue
        if not group.members:
            complain(f"Consumer group '{name}' has no active members.")
        rows: list[tuple[Any, ...]] = []
        for tp in sorted({*group.offsets, *group.owners}):
            offset, end = group.offsets.get(tp), ends.get(tp)
            lag = None if offset is None or end is None else end - offset
            rows.append((name, *tp, offset, end, lag, group.owners.get(tp)))
        show(COLUMNS, rows, as_json=arguments.json)
    return 1 if None in groups.values() else 0
