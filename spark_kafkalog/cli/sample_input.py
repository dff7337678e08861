"""Real text on this machine for the quickstart: the file that the user names, else a large log, else source code."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

LOG_DIRECTORIES = (Path("/var/log"), Path.home() / "Library" / "Logs")
LARGE_ENOUGH = 8 << 20
"""A smaller log would be read before there is anything to see."""
SOURCES_MAX = 96 << 20
READ_SIZE = 1 << 20
MAX_LINE = 512 << 10
"""Longer lines are cut, so that every record fits into `message.max.bytes`."""


class NoInputError(ValueError):
    """The named file cannot be used, or nothing readable was found."""


def choose_input(named: Path | None) -> tuple[str, list[Path]]:
    """Return a name for the input, and its files.

    Raises:
        NoInputError: The named file is not a readable file with text in it.
    """
    if named is not None:
        if not named.is_file():
            raise NoInputError(f"{named} is not a file; name a text file, such as a log")
        if not os.access(named, os.R_OK):
            raise NoInputError(f"{named} cannot be read; choose another file or change its permissions")
        if not is_text(named):
            raise NoInputError(f"{named} is empty or not text; name a text file, such as a log")
        return str(named), [named]
    logs = sorted(_logs(), key=_size)
    if logs and _size(logs[-1]) >= LARGE_ENOUGH:
        return str(logs[-1]), [logs[-1]]
    sources = list(_sources())
    if not sources:
        raise NoInputError("found no text to read; name a text file: kafkalog quickstart FILE")
    return f"the Python sources under {os.path.commonpath(sources)} ({len(sources):,} files)", sources


def read_lines(files: Iterable[Path]) -> Iterator[list[bytes]]:
    """Yield the lines of the files in blocks, without their line ends; skip files that vanished."""
    for path in files:
        try:
            file = path.open("rb")
        except OSError:
            continue
        with file:
            rest = b""
            while block := file.read(READ_SIZE):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                if len(rest) > MAX_LINE:
                    lines.append(rest)
                    rest = b""
                if lines:
                    yield [line if len(line) <= MAX_LINE else line[:MAX_LINE] for line in lines]
            if rest:
                yield [rest]


def is_text(path: Path) -> bool:
    """Return whether the file has content and looks like text: no zero byte at its beginning."""
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return False
    return bool(head) and b"\0" not in head


def _logs() -> Iterator[Path]:
    for directory in LOG_DIRECTORIES:
        for root, _, names in os.walk(directory):
            for name in names:
                path = Path(root, name)
                if path.is_file() and not path.is_symlink() and is_text(path):
                    yield path


def _sources() -> Iterator[Path]:
    total = 0
    # The standard library, then the packages installed beside this one.
    for directory in dict.fromkeys([sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")]):
        for root, folders, names in os.walk(directory):
            folders.sort()
            for name in sorted(names):
                path = Path(root, name)
                if name.endswith(".py") and not path.is_symlink() and _size(path):
                    total += _size(path)
                    if total > SOURCES_MAX:
                        return
                    yield path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
