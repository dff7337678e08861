"""`kafkalog server start`: run a broker in the foreground."""

from __future__ import annotations

import argparse
from pathlib import Path

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
    parser = subparsers.add_parser("server", help="run a broker")
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    start = commands.add_parser(
        "start",
        help="start a broker in the foreground",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    start.add_argument("--config", type=Path, metavar="FILE", help="a server.properties file")
    start.add_argument(
        "--override",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a setting that wins over the file's",
    )
    start.set_defaults(run=run_start)


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
    from kafkalog.java_properties import PropertiesError, load_properties

    try:
        texts = load_properties(arguments.config) if arguments.config else {}
        for override in arguments.override:
            key, equals, value = override.partition("=")
            if not equals:
                raise ConfigError(f"--override {override}: expected KEY=VALUE")
            texts[key.strip()] = value
        config = BrokerConfig(texts)
    except (ConfigError, PropertiesError) as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 2
    return run(config)
