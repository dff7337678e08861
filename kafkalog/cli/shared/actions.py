"""Commands that have actions, such as `kafkalog groups list`: their parsers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from importlib import import_module

from kafkalog.cli.parser import CommandParser


def add_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    purpose: str,
    epilog: str | None = None,
    *,
    modules: Iterable[str] = (),
) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    """Add a command, and return its actions, of which a user names one.

    Args:
        subparsers: The commands.
        name: The command's name.
        purpose: Its line in the list of commands.
        epilog: The end of its help, which is printed unchanged.
        modules: The modules that have an action each, and add it by their `add_parser`.
    """
    parser = subparsers.add_parser(
        name, help=purpose, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    if isinstance(parser, CommandParser):
        parser.actions = commands.choices
    for module in modules:
        import_module(module).add_parser(commands)
    return commands


def action_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, epilog: str
) -> argparse.ArgumentParser:
    """Add an action and return its parser; `purpose` describes it, and `epilog` is printed unchanged."""
    return commands.add_parser(
        name,
        help=purpose,
        description=purpose[0].upper() + purpose[1:] + ".",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
