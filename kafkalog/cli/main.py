"""``kafkalog``: the command line. Each command group is a module of this package with ``add_parser``.

A module is imported only when its command is asked for, so that ``kafkalog --help`` and shell completion answer at
once. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import kafkalog

COMMANDS = {
    "server": "run a broker",
    "topics": "create, list, describe, alter and delete topics",
    "configs": "describe and alter the configurations of topics, brokers and groups",
    "groups": "list, describe and delete consumer groups, reset their offsets",
    "transactions": "list, describe and abort transactions, find hanging ones",
    "produce": "write lines of standard input to a topic",
    "consume": "print the records of a topic",
    "load": "load topics into Parquet on HDFS, exactly once",
    "log": "look into log files",
    "spark": "make Spark's Python processes start faster",
    "perf": "measure producing and consuming",
    "quickstart": "broker, topic, real input and Spark into Parquet, on this machine",
}
EPILOG = """\
examples:
  kafkalog quickstart
  kafkalog server start --config conf/server.properties
  kafkalog topics create --bootstrap-server localhost:9092 --topic words --partitions 4
  kafkalog produce --bootstrap-server localhost:9092 --topic words < words.txt
  kafkalog consume --bootstrap-server localhost:9092 --topic words --from-beginning

`kafkalog COMMAND --help` shows a command's options.
"""
INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    """Tells options that it does not know itself: by default a command's would be told with the usage of `kafkalog`."""

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def _parser(wanted: str | None) -> argparse.ArgumentParser:
    """The whole parser, with the options of the one command that was asked for."""
    parser = _Parser(
        prog="kafkalog",
        description="A Kafka-compatible commit log and its Spark source.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kafkalog {kafkalog.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, purpose in COMMANDS.items():
        if name == wanted:
            import_module(f"kafkalog.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=purpose)
    return parser


def _open_closed_streams() -> None:
    """Let a standard stream that was closed by whoever started us be empty, instead of None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _open_closed_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    wanted = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = _parser(wanted).parse_args(words)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except OSError as error:
        # Where whoever read our output has seen enough, there is nothing to say.
        if not isinstance(error, BrokenPipeError):
            print(f"kafkalog: {error}", file=sys.stderr)
        # Python would complain once more when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
