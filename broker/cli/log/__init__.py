"""`kafkalog log`: look into log files, check them and repair them.

There is a module for each command. It parses, calls `broker.log.tools` and prints.

- `dump`        `dump`
- `verify`      `verify`
- `repair`      `repair`
- `tail`        `tail`
- `stats`       `stats`
- `import_0_7`  `import-0.7`
- `common`      what these commands share: paths, progress, reporting of errors
"""

from __future__ import annotations

import argparse

from kafkalog.cli.shared.actions import add_command

COMMANDS = ("dump", "verify", "repair", "tail", "stats", "import_0_7")

EXAMPLES = """\
examples:
  kafkalog log dump /var/lib/kafkalog/words-0/00000000000000000000.log
  kafkalog log verify /var/lib/kafkalog
  kafkalog log tail /var/lib/kafkalog/words-0

`kafkalog log ACTION --help` shows an action's options.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `log` and its commands."""
    modules = [f"broker.cli.log.{name}" for name in COMMANDS]
    add_command(subparsers, "log", "look into log files, check and repair them", EXAMPLES, modules=modules)
