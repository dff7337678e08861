"""`kafkalog server`: run a broker in the foreground, make it a member of a cluster or the reverse, and add users."""

from __future__ import annotations

import argparse

from broker.cli import membership, users
from broker.cli.settings import add_action, read_settings
from kafkalog.cli.shared.actions import add_command

EXAMPLES = """\
examples:
  kafkalog server start
  kafkalog server start --config conf/server.properties
  kafkalog server start --override listeners=PLAINTEXT://127.0.0.1:9092 --override log.dirs=/var/lib/kafkalog

The broker prints one line when it accepts connections and stops cleanly on SIGTERM or Ctrl-C.
Keys are Apache Kafka's; docs/reference/configuration.md lists them.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `server` and its commands."""
    actions = add_command(subparsers, "server", "run a broker")
    start = add_action(actions, "start", "start a broker in the foreground", "server.properties", EXAMPLES)
    start.set_defaults(run=run_start)
    membership.add_actions(actions)
    users.add_actions(actions)


def run_start(arguments: argparse.Namespace) -> int:
    """Run the broker; 1 when it cannot start, 2 when the settings cannot be used."""
    from broker.system import collector

    collector.pause_at_start()
    try:
        return _run(arguments)
    finally:
        collector.resume()


def _run(arguments: argparse.Namespace) -> int:
    import sys

    from broker.config.definition import ConfigError
    from broker.config.server import BrokerConfig
    from broker.main import run
    from kafkalog.java_properties import PropertiesError

    try:
        config = BrokerConfig(read_settings(arguments))
    except (ConfigError, PropertiesError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    return run(config)
