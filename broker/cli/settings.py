"""Options of commands that start a server: a properties file, and settings that win over it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import add_repeated

if TYPE_CHECKING:
    from argparse import ArgumentParser


def add_action(
    actions: argparse._SubParsersAction[ArgumentParser], name: str, purpose: str, file: str, examples: str
) -> ArgumentParser:
    """Add an action that takes the settings of a server.

    Args:
        actions: The actions of the command.
        name: The action's name.
        purpose: Its line in the list of actions.
        file: What the properties file is called, such as `server.properties`.
        examples: The end of its help.
    """
    action = actions.add_parser(
        name, help=purpose, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    action.add_argument("--config", type=Path, metavar="FILE", help=f"a {file} file")
    add_repeated(action, "--override", metavar="KEY=VALUE", purpose="a setting that wins over the file's")
    return action


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
            # The word may be a password.
            raise PropertiesError("--override: expected KEY=VALUE")
        settings[key.strip()] = value
    return settings
