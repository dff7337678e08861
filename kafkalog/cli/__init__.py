"""The command line; `run` is its entry point.

- `client_log`      the client's log lines, as messages of a command
- `client_options`  options that commands share
- `configs`         `kafkalog configs`
- `consume`         `kafkalog consume`
- `formatter`       records as lines of text
- `group_tools`     the commands of `kafkalog groups`
- `groups`          `kafkalog groups`
- `interruptible`   signals that end a command
- `load`            `kafkalog load`
- `local_broker`    a broker as a child process
- `log`             `kafkalog log`
- `log_tools`       the commands of `kafkalog log`
- `main`            the command's entry point
- `perf`            `kafkalog perf`
- `produce`         `kafkalog produce`
- `quickstart`      `kafkalog quickstart`
- `quiet_spark`     a local Spark session that prints nothing
- `quotas`          `kafkalog configs` for users, clients and addresses
- `sample_input`    text for the quickstart
- `server`          `kafkalog server start`
- `sources`         where `kafkalog consume` gets its records
- `spark`           `kafkalog spark`
- `topics`          `kafkalog topics`
- `transactions`    `kafkalog transactions`
"""

from __future__ import annotations


def run() -> int:
    """``kafkalog.cli.main.main``, also where Ctrl-C comes before that is imported."""
    try:
        from kafkalog.cli.main import main

        return main()
    except KeyboardInterrupt:
        return 130
