"""`kafkalog groups delete`: delete consumer groups that have no members."""

from __future__ import annotations

import argparse

from kafkalog.cli.admin.groups.common import IN_ZOOKEEPER, add_groups, open_admin, selected
from kafkalog.cli.admin.groups.zookeeper import delete
from kafkalog.cli.shared.client_options import UsageError, add_action, complain, reporting

EXAMPLES = """\
examples:
  kafkalog groups delete --bootstrap-server localhost:9092 --group words --group pages
  kafkalog groups delete --zookeeper localhost:2181 --group words
  kafkalog groups delete --zookeeper localhost:2181 --group words --topic visits
  kafkalog groups delete --zookeeper localhost:2181 --topic visits

The committed offsets of a group are deleted with it. With --zookeeper, --topic deletes the offsets of one topic: those
of the groups that are named, or of all groups without members. Exit code 1: a group does not exist, has members, or was
not deleted for another reason.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `delete`."""
    parser = add_action(
        commands, "delete", "delete consumer groups that have no members", EXAMPLES, zookeeper=IN_ZOOKEEPER
    )
    add_groups(parser, required=False)
    parser.add_argument(
        "--topic", metavar="TOPIC", help="with --zookeeper: delete a topic of the groups, or of all groups"
    )
    parser.set_defaults(run=run_delete)


@reporting
def run_delete(arguments: argparse.Namespace) -> int:
    """Delete groups, and report each group that was not deleted."""
    if arguments.zookeeper is not None:
        return delete(arguments)
    if arguments.topic is not None:
        raise UsageError("--topic needs --zookeeper; `kafkalog groups delete-offsets` deletes a topic's offsets")
    if not (arguments.group or arguments.all_groups):
        raise UsageError("one of --group and --all-groups must say which groups are deleted")
    from kafkalog.protocol.errors import KafkaError

    with open_admin(arguments) as admin:
        chosen = selected(admin, arguments)
        outcomes = admin.delete_groups_each(chosen.names)
    deleted = [name for name, error in outcomes.items() if error is None]
    if deleted:
        names = ", ".join(f"'{name}'" for name in deleted)
        print(f"Deletion of requested consumer groups ({names}) was successful.")
    for name, error in outcomes.items():
        if error is not None:
            reason = error.code.message if isinstance(error, KafkaError) else error
            complain(f"Group '{name}' could not be deleted: {reason}")
    return 0 if chosen.is_whole and len(deleted) == len(outcomes) else 1
