"""`kafkalog reassign`: move partitions between brokers, as kafka-reassign-partitions.sh does.

- `actions`      the actions: generate, execute, verify, cancel, list
- `proposal`     where partitions could be, over a list of brokers; pure
- `throttles`    which replicas are throttled while they move, and the settings for that
- `directories`  how far replicas are that move between log directories; pure
- `progress`     how many bytes are left, and how long that takes
- `waits`        what a reassignment waits for; pure
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import add_action, add_repeated, examples_of, positive

if TYPE_CHECKING:
    from kafkalog.cli.shared.client_options import Run

EXAMPLES = """\
examples:
  kafkalog reassign generate --bootstrap-server localhost:9092 --topic words --broker-list 1,2,3
  kafkalog reassign execute --bootstrap-server localhost:9092 --reassignment-json-file moves.json --throttle 50000000
  kafkalog reassign execute --bootstrap-server localhost:9092 --reassignment-json-file moves.json --follow
  kafkalog reassign verify --bootstrap-server localhost:9092 --reassignment-json-file moves.json
  kafkalog reassign cancel --bootstrap-server localhost:9092 --reassignment-json-file moves.json
  kafkalog reassign list --bootstrap-server localhost:9092
"""
FILE = """
the file:
  {"version":1,"partitions":[{"topic":"words","partition":0,"replicas":[1,2],"log_dirs":["any","any"]}]}
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `reassign` and its actions."""
    commands = add_command(
        subparsers, "reassign", "move partitions between brokers, and follow how far that is", EXAMPLES + FILE
    )
    generate = _add(commands, "generate", "print how topics could be placed on a list of brokers")
    topics = generate.add_mutually_exclusive_group(required=True)
    add_repeated(topics, "--topic", metavar="TOPIC", purpose="a topic to place")
    topics.add_argument(
        "--topics-to-move-json-file", metavar="FILE", help='a JSON file: {"version":1,"topics":[{"topic":"words"}]}'
    )
    generate.add_argument("--broker-list", required=True, metavar="ID,ID,…", help="the brokers to place them on")
    generate.add_argument("--disable-rack-aware", action="store_true", help="disregard the racks of the brokers")
    generate.set_defaults(run=_later("generate"))

    execute = _add(commands, "execute", "begin to move partitions to the brokers that a file names", with_file=True)
    execute.add_argument(
        "--throttle", type=positive, metavar="BYTES", help="the most bytes a second that a broker moves"
    )
    execute.add_argument(
        "--replica-alter-log-dirs-throttle",
        type=positive,
        metavar="BYTES",
        help="the most bytes a second that a broker moves between its own log directories",
    )
    execute.add_argument(
        "--additional", action="store_true", help="begin although other reassignments are going on; change the throttle"
    )
    execute.add_argument(
        "--follow", action="store_true", help="show the bytes left until all is done, and remove the throttle then"
    )
    execute.set_defaults(run=_later("execute"))

    verify = _add(
        commands,
        "verify",
        "say how far a file's moves are, between brokers and log directories; remove the throttle once all is done",
        True,
    )
    verify.add_argument("--follow", action="store_true", help="show the bytes left until all is done")
    cancel = _add(commands, "cancel", "cancel a file's moves, between brokers and log directories", True)
    for each, name in ((verify, "verify"), (cancel, "cancel")):
        each.add_argument("--preserve-throttles", action="store_true", help="leave the throttles as they are")
        each.set_defaults(run=_later(name))
    _add(commands, "list", "list all reassignments that are going on").set_defaults(run=_later("list_all"))


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, with_file: bool = False
) -> argparse.ArgumentParser:
    parser = add_action(
        commands, name, purpose, examples_of(EXAMPLES, f"reassign {name}") + (FILE if with_file else "")
    )
    if with_file:
        parser.add_argument(
            "--reassignment-json-file", required=True, metavar="FILE", help="a JSON file with the brokers of partitions"
        )
    return parser


def _later(name: str) -> Run:
    """Return an action that is imported when it runs."""

    def run(arguments: argparse.Namespace) -> int:
        from kafkalog.cli.admin.reassign import actions

        action: Run = getattr(actions, f"run_{name}")
        return action(arguments)

    return run
