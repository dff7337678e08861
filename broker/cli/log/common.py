"""Helpers of the commands on log files: paths, progress, JSON, error messages."""

from __future__ import annotations

import argparse
import functools
import sys
import threading
import time
from typing import TYPE_CHECKING

from kafkalog.cli.shared.client_options import Run, complain, positive

if TYPE_CHECKING:
    from broker.log.tools.targets import Targets

PATHS = "a log directory, a partition's directory, a file of one, or a tree with any of them"
EVERY_S = 0.2


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, description: str, more: str
) -> argparse.ArgumentParser:
    """Return a parser with examples at its end."""
    return commands.add_parser(
        name,
        help=purpose,
        description=description,
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add `--no-progress`."""
    parser.add_argument("--no-progress", action="store_true", help="show no progress, even on a terminal")


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add `--threads`."""
    parser.add_argument(
        "--threads", type=positive, metavar="N", help="threads that read (default: one for each processor)"
    )


def find(paths: list[str]) -> Targets:
    """Find the logs at the paths. Raises the errors that `reporting` prints."""
    from broker.log.tools import targets

    return targets.find(paths)


def reporting(run: Run) -> Run:
    """Print expected errors as one line; exit code 2 for unusable options, 1 for the others."""

    @functools.wraps(run)
    def reported(arguments: argparse.Namespace) -> int:
        from broker.log.tools.repair import InUseError
        from broker.log.tools.targets import NotALogError
        from kafkalog.cli.shared.client_options import USAGE, UsageError
        from kafkalog.records.errors import RecordsError

        try:
            return run(arguments)
        except UsageError as error:
            complain(error)
            return USAGE
        except (NotALogError, InUseError, RecordsError) as error:
            complain(error)
        return 1

    return reported


def size_text(size: float) -> str:
    """Return a size for people, in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


class Progress:
    """A line of progress, on a terminal only. A context manager.

    Call it with the bytes that were done, on any thread.
    """

    def __init__(self, total: int, quiet: bool = False) -> None:
        self._total = total
        self._quiet = quiet or not sys.stderr.isatty()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._shown = self._began
        self.done = 0

    def __call__(self, size: int) -> None:
        with self._lock:
            self.done += size
            now = time.monotonic()
            if self._quiet or now - self._shown < EVERY_S:
                return
            self._shown = now
            share = 100 * self.done // self._total if self._total else 100
            speed = self.done / max(now - self._began, 1e-9)
            text = f"{share} % of {size_text(self._total)}, {size_text(speed)}/s"
            sys.stderr.write(f"\r{text:<60}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Clear the line, so that other output can be printed."""
        with self._lock:
            if not self._quiet and self._shown != self._began:
                sys.stderr.write(f"\r{'':<60}\r")
                sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
