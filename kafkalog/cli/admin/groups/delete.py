"""`kafkalog groups delete`: delete consumer groups that have no members."""

from __future__ import annotations

import argparse

from kafkalog.cli.admin.groups.common import add_groups, open_admin, selected
from kafkalog.cli.shared.client_options import add_action, complain, reporting

EXAMPLES = """\
examples:
  kafkalog groups delete --bootstrap-server localhost:9092 --group words --group pages

The committed offsets of a group are deleted with it. Exit code 1: a group does not exist, has members, or was not
deleted for another reason.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `delete`."""
    parser = add_action(commands, "delete", "delete consumer groups that have no members", EXAMPLES)
    add_groups(parser)
    parser.set_defaults(run=run_delete)


@reporting
def run_delete(arguments: argparse.Namespace) -> int:
    """Delete groups, and report each group that was not deleted."""
    with open_admin(arguments) as admin:
        outcomes = admin.delete_groups(selected(admin, arguments))
    deleted = [name for name, error in outcomes.items() if error is None]
    if deleted:
        names = ", ".join(f"'{name}'" for name in deleted)
        print(f"Deletion of requested consumer groups ({names}) was successful.")
    for name, error in outcomes.items():
        if error is not None:
            complain(f"Group '{name}' could not be deleted: {error.code.message}")
    return 0 if len(deleted) == len(outcomes) else 1
