"""``kafkalog groups``: consumer groups, as kafka-consumer-groups.sh. A module of `group_tools` for each command."""

from __future__ import annotations

import argparse
from importlib import import_module

COMMANDS = ("listing", "describe", "reset_offsets", "delete", "delete_offsets", "remove_members")

EXAMPLES = """\
examples:
  kafkalog groups list --bootstrap-server localhost:9092
  kafkalog groups describe --bootstrap-server localhost:9092 --group words
  kafkalog groups reset-offsets --bootstrap-server localhost:9092 --group words --topic words --to-earliest --dry-run

`kafkalog groups ACTION --help` shows an action's options.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add ``groups`` and its commands."""
    parser = subparsers.add_parser(
        "groups",
        help="list, describe and delete consumer groups, reset their offsets",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name in COMMANDS:
        import_module(f"kafkalog.cli.group_tools.{name}").add_parser(commands)
