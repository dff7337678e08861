"""Groups in ZooKeeper for `list`, `describe` and `delete`, as kafka-consumer-groups.sh had them with `--zookeeper`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from kafkalog.cli.admin.groups.common import (
    OF_PARTITION,
    OF_POSITION,
    Column,
    LogEnds,
    log_ends,
    open_zookeeper,
    selected_in_zookeeper,
    show,
)
from kafkalog.cli.shared.client_options import UsageError, admin_config, complain

if TYPE_CHECKING:
    from kafkalog.client.zookeeper.session import ZooKeeperSession
    from kafkalog.client.zookeeper.steps import Steps

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
    """Print offset, lag and owner of each partition; return 1 if a group does not exist, or a lag is not known."""
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.zookeeper.groups import read_group

    if arguments.members or arguments.state:
        raise UsageError("--members and --state do not go with --zookeeper; OWNER names the member of each partition")
    with open_zookeeper(arguments) as session:
        groups = {name: session.run(read_group(name)) for name in selected_in_zookeeper(session, arguments)}
    partitions = {tp for group in groups.values() if group for tp in (*group.offsets, *group.owners)}
    with GroupAdmin(admin_config(arguments)) as admin:
        ends = log_ends(admin, partitions) if partitions else LogEnds({}, True)
    for name, group in groups.items():
        if group is None:
            complain(f"Consumer group '{name}' does not exist in ZooKeeper.")
            continue
        if not group.members:
            complain(f"Consumer group '{name}' has no active members.")
        rows: list[tuple[Any, ...]] = []
        for tp in sorted({*group.offsets, *group.owners}):
            offset, end = group.offsets.get(tp), ends.offsets.get(tp)
            lag = None if offset is None or end is None else end - offset
            rows.append((name, *tp, offset, end, lag, group.owners.get(tp)))
        show(COLUMNS, rows, as_json=arguments.json)
    return 0 if ends.is_whole and None not in groups.values() else 1


def delete(arguments: argparse.Namespace) -> int:
    """Delete groups, a topic of groups, or a topic of all groups; return 1 if a group that is named was not deleted."""
    from kafkalog.client.zookeeper.deletion import delete_group, delete_topic, delete_topic_of_all

    topic: str | None = arguments.topic
    if not (arguments.group or arguments.all_groups or topic):
        raise UsageError("give --group or --all-groups, --topic, or both")
    with open_zookeeper(arguments) as session:
        if topic is not None and not arguments.group:
            for name in session.run(delete_topic_of_all(topic)):
                complain(f"Group '{name}' was left alone because its consumers are still active.")
            print(
                f"Deleted consumer group information for all inactive consumer groups for topic '{topic}' in zookeeper."
            )
            return 0
        failed = 0
        for name in selected_in_zookeeper(session, arguments):
            work = delete_group(name) if topic is None else delete_topic(name, topic)
            failed += not _deleted(session, work, name, topic)
    return 1 if failed else 0


def _deleted(session: ZooKeeperSession, work: Steps[None], name: str, topic: str | None) -> bool:
    """Delete, and print what came of it in the words of Kafka's tool; return whether it was deleted."""
    from kafkalog.client.zookeeper.deletion import GroupActiveError, GroupMissingError, GroupTopicMissingError

    what = f"group '{name}'" if topic is None else f"group '{name}' topic '{topic}'"
    try:
        session.run(work)
    except GroupMissingError:
        complain(f"Delete for {what} failed because group does not exist.")
    except GroupTopicMissingError:
        complain(f"Delete for {what} failed because the group has no such topic.")
    except GroupActiveError:
        complain(f"Delete for {what} failed because its consumers are still active.")
    else:
        scope = "all consumer group information" if topic is None else "consumer group information"
        print(f"Deleted {scope} for {what} in zookeeper.")
        return True
    return False
