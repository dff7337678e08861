"""Find the commands of the installed packages by their entry points.

A package announces a table of `Command` objects in the group `kafkalog.commands` of its metadata, which stands in its
`pyproject.toml`::

    [project.entry-points."kafkalog.commands"]
    broker = "broker.cli.commands:COMMANDS"

Source: the entry points specification (packaging.python.org/en/latest/specifications/entry-points).

The metadata is read here and not by `importlib.metadata`, which alone takes longer to import (27 ms) than all of
`kafkalog --help` takes (25 ms); this takes 1 ms for 120 installed distributions.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module

from kafkalog.cli.command import Command

GROUP = "kafkalog.commands"
_METADATA = (".dist-info", ".egg-info")


class NoCommandsError(Exception):
    """No installed package announces commands; the message says what to do."""


def find_commands() -> list[Command]:
    """Return the commands of all installed packages, in the order of `kafkalog --help`.

    A package whose table cannot be imported is reported on standard error, and the others' commands are returned.

    Raises:
        NoCommandsError: There is no command at all, because kafkalog was not installed since it has entry points.
    """
    found: dict[str, Command] = {}
    for name, value in read_entry_points(sys.path).items():
        module, _, attribute = value.partition(":")
        try:
            table: Iterable[Command] = getattr(import_module(module), attribute)
            commands = {command.name: command for command in table}
        except Exception as error:
            # The other packages' commands must work whatever is wrong with this one.
            print(f"kafkalog: the commands of {name} ({value}) cannot be loaded: {error}", file=sys.stderr)
            continue
        found = commands | found
    if not found:
        raise NoCommandsError(
            "the metadata of this installation names no commands; "
            "install kafkalog again, for a source directory with: pip install -e ."
        )
    return sorted(found.values(), key=lambda command: (command.position, command.name))


def read_entry_points(path: Iterable[str]) -> dict[str, str]:
    """Return the entry points of the group by name, from the distributions in the directories of `path`.

    If two have the same name, the first on `path` counts, as with modules.
    """
    found: dict[str, str] = {}
    for directory in path:
        try:
            entries = os.listdir(directory or ".")
        except OSError:
            # The directory is missing, or is an archive; distributions in archives are not searched.
            continue
        for entry in entries:
            if entry.endswith(_METADATA):
                for name, value in _read_group(os.path.join(directory, entry, "entry_points.txt")):
                    found.setdefault(name, value)
    return found


def _read_group(file: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of the group in one `entry_points.txt`, an INI file in UTF-8."""
    try:
        with open(file, "rb", buffering=0) as opened:
            content = opened.read()
    except OSError:
        return
    if GROUP.encode() not in content:
        return
    section = ""
    for line in map(str.strip, content.decode(errors="replace").splitlines()):
        if line.startswith("["):
            section = line.strip("[] ")
        elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
