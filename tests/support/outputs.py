"""Outputs that the processes of a test have written, for the report of its failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peers.process import tail

SUFFIXES = frozenset({".out", ".err", ".log"})
MOST_FILES, MOST_LINES, MOST_CHARACTERS = 6, 15, 240


def outputs_since(directory: Path, since: float) -> Iterator[tuple[str, str]]:
    """Yield the names and last lines of output files below a directory that were written to since a time.

    Segments of logs, whose names are numbers, are no output, and a JVM's log of its garbage collector tells nothing.
    """
    changed = [path for path in _outputs(directory) if path.stat().st_mtime >= since]
    for path in sorted(changed, key=lambda each: each.stat().st_mtime)[-MOST_FILES:]:
        lines = [line[:MOST_CHARACTERS] for line in tail(path).splitlines()]
        yield str(path.relative_to(directory)), "\n".join(lines[-MOST_LINES:])


def _outputs(directory: Path) -> Iterator[Path]:
    for path in directory.rglob("*"):
        if path.suffix in SUFFIXES and not path.stem.isdigit() and path.stem != "gc" and path.is_file():
            yield path
