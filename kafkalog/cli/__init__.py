"""The command line, and the clients' commands of it; `run` is its entry point.

The machinery:

- `main`          parses the words and runs one command
- `entry_points`  finds the commands of the installed packages
- `parser`        the parser of the words
- `command`       the entry of a command in a package's table

The clients' commands and their parts:

- `commands`  the table of them, which pyproject.toml announces as an entry point
- `admin`     those that administer a cluster: topics, configurations, groups, transactions and more
- `transfer`  those that send and receive records: produce, consume and perf
- `shared`    parts of all packages' commands: options, messages, signals, records as text
"""

from __future__ import annotations


def run() -> int:
    """Run the command that this process was started for; Ctrl-C ends it quietly even while it is being imported."""
    try:
        from kafkalog.cli.main import run_last

        return run_last()
    except KeyboardInterrupt:
        return 130
