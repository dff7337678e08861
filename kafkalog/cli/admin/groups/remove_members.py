"""`kafkalog groups remove-members`: have members leave a group of the classic protocol."""

from __future__ import annotations

import argparse

from kafkalog.cli.admin.groups.common import open_admin
from kafkalog.cli.shared.client_options import UsageError, add_action, add_repeated, complain, reporting

EXAMPLES = """\
examples:
  kafkalog groups remove-members --bootstrap-server localhost:9092 --group words --instance-id host-7
  kafkalog groups remove-members --bootstrap-server localhost:9092 --group words --all-members

For static members (group.instance.id) that will not come back: the others get their partitions at once, and not only
after session.timeout.ms. A removed member that still runs joins again. Exit code 1: a member was not removed.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `remove-members`."""
    parser = add_action(commands, "remove-members", "remove members from a consumer group", EXAMPLES)
    parser.add_argument("--group", required=True, metavar="GROUP", help="the consumer group")
    add_repeated(parser, "--instance-id", metavar="ID", purpose="a static member")
    add_repeated(parser, "--member", metavar="ID", purpose="a member by its consumer id")
    parser.add_argument("--all-members", action="store_true", help="all members of the group")
    parser.add_argument("--reason", default="", metavar="TEXT", help="the reason, for the broker's log")
    parser.set_defaults(run=run_remove_members)


@reporting
def run_remove_members(arguments: argparse.Namespace) -> int:
    """Remove members, and print a line about each."""
    from kafkalog.client.admin.groups.descriptions import MemberToRemove

    members = [MemberToRemove(instance_id=each) for each in arguments.instance_id]
    members += [MemberToRemove(member_id=each) for each in arguments.member]
    if bool(members) == arguments.all_members:
        raise UsageError("give --instance-id or --member, or else --all-members")
    with open_admin(arguments) as admin:
        outcomes = admin.remove_members(arguments.group, members or None, reason=arguments.reason)
    if not outcomes:
        complain(f"Consumer group '{arguments.group}' has no active members.")
    for member, error in outcomes.items():
        if error is None:
            print(f"Removed member {member.instance_id or member.member_id}.")
        else:
            complain(error.message)
    return 1 if any(outcomes.values()) else 0
