"""Options of commands that start a server: a properties file, and settings that win over it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_start(
    subparsers: argparse._SubParsersAction[ArgumentParser], name: str, server: str, purpose: str, examples: str
) -> ArgumentParser:
    """Add the command `name` with its action `start`; return the parser of `start`.

    Args:
        subparsers: The commands.
        name: The command's name.
        server: What the command starts, such as `a broker`.
        purpose: The command's line in the list of commands.
        examples: The end of the help of `start`.
    """
    commands = subparsers.add_parser(name, help=purpose).add_subparsers(dest="action", required=True, metavar="ACTION")
    start = commands.add_parser(
        "start",
        help=f"start {server} in the foreground",
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument("--config", type=Path, metavar="FILE", help=f"a {name}.properties file")
    start.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting that wins over the file's",
    )
    return start


def read_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the settings of the file, with those of the command line in place of its own.

    Raises:
        PropertiesError: The file cannot be read, or an override is not `KEY=VALUE`.
    """
    from kafkalog.java_properties import load_properties

    settings = load_properties(arguments.config) if arguments.config else {}
    return settings | read_overrides(arguments.override)


def read_overrides(overrides: Iterable[str]) -> dict[str, str]:
    """Return the settings of the options `--override`, of which the last one of a key counts.

    Raises:
        PropertiesError: An override is not `KEY=VALUE`.
    """
    from kafkalog.java_properties import PropertiesError

    settings = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals:
            raise PropertiesError(f"--override {override}: expected KEY=VALUE")
        settings[key.strip()] = value
    return settings
