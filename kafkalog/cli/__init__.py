"""The command line, and the clients' commands of it; `run` is its entry point.

The machinery:

- `main`          parses the words and runs one command
- `entry_points`  finds the commands of the installed packages
- `command`       what a package announces of a command

The clients' commands, and what they are made of:

- `commands`      the table of them, which pyproject.toml announces as an entry point
- `topics`        `kafkalog topics`
- `configs`       `kafkalog configs`; `quotas` is its part for users, client ids and addresses
- `groups`        `kafkalog groups`: a module for each of its commands
- `transactions`  `kafkalog transactions`
- `produce`       `kafkalog produce`
- `consume`       `kafkalog consume`; `sources` gets its records
- `perf`          `kafkalog perf`
- `shared`        what the commands of all packages share: options, messages, signals, records as text
"""

from __future__ import annotations


def run() -> int:
    """Run ``kafkalog.cli.main.main``; Ctrl-C ends the command quietly even while that is still being imported."""
    try:
        from kafkalog.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130
