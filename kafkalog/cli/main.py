"""`kafkalog`: the command line.

The commands are found by entry points (`entry_points`). Each command has a module with `add_parser`, which adds its
options and sets `run`, the function that takes the parsed arguments and returns the exit code. A command's module is
imported only when the command is asked for, so that `kafkalog --help` and shell completion answer at once.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module

import kafkalog
from kafkalog.cli.entry_points import NoCommandsError, find_commands
from kafkalog.cli.parser import CommandParser

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


def parser_for(wanted: str | None) -> argparse.ArgumentParser:
    """Return the parser of all commands; it has the options of the `wanted` one only.

    Raises:
        NoCommandsError: None are installed.
    """
    parser = CommandParser(
        prog="kafkalog",
        description="A Kafka-compatible commit log and its Spark source.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"kafkalog {kafkalog.__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in find_commands():
        if command.name == wanted:
            import_module(command.module).add_parser(commands)
        else:
            commands.add_parser(command.name, help=command.summary)
    return parser


def _open_closed_streams() -> None:
    """Connect a standard stream that our parent process closed to the null device; Python leaves it as None."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _escape_what_the_encoding_lacks() -> None:
    """Have standard output write what its encoding does not have as escapes; Python would raise an error.

    Where the locale is C or POSIX, Python's handler is `surrogateescape`. It raises as well, except for the bytes of
    names that are not UTF-8.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="backslashreplace")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; put the handlers of signals back for a process that goes on."""
    if threading.current_thread() is not threading.main_thread():
        return run_last(argv)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return run_last(argv)
    finally:
        for number, handler in before.items():
            # None stands for a handler that was not set by Python.
            if handler is not None:
                signal.signal(number, handler)


def run_last(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code, with which the process is to end: signals may stay ignored."""
    _open_closed_streams()
    _escape_what_the_encoding_lacks()
    words = list(sys.argv[1:] if argv is None else argv)
    wanted = next((word for word in words if not word.startswith("-")), None)
    try:
        arguments = parser_for(wanted).parse_args(words)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except NoCommandsError as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        # A broken pipe is no failure to report: the reader of our output has read enough and closed it.
        if not isinstance(error, BrokenPipeError):
            print(f"kafkalog: {error}", file=sys.stderr)
        # Python closes standard output at exit and would report the same error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(run_last())
