"""Java's archives of the classes that brokers of Apache Kafka load, so that those of tests start sooner.

A JVM maps the classes from an archive (class data sharing, JEP 350) and neither parses nor verifies them. It ignores an
archive that was made by another Java or for other jars, and starts as without. `python -m peers.fetch` makes them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from peers.cache import cache_root, cached
from peers.toolchains import java

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""A JVM that ignores the archive would say so on standard output."""
_FILE = "classes.jsa"


def options(jars: Sequence[Path]) -> list[str]:
    """Return the options of a JVM that uses the archive for these jars; none where there is no archive."""
    file = cache_root() / _name(jars) / _FILE
    return [f"-XX:SharedArchiveFile={file}", *_QUIET] if file.exists() else []


def make(jars: Sequence[Path], run: Callable[[str], None]) -> None:
    """Make the archive unless there is one.

    Args:
        jars: The class path.
        run: Runs the program with the one further option that is passed, and ends it by SIGTERM or an exit.

    Raises:
        RuntimeError: The program has written no archive.
    """

    def build(directory: Path) -> None:
        run(f"-XX:ArchiveClassesAtExit={directory / _FILE}")
        if not (directory / _FILE).exists():
            raise RuntimeError(f"no archive of the classes of {jars[0].parent} was written")

    cached(_name(jars), build)


def _name(jars: Sequence[Path]) -> str:
    """Return the cache's directory name for the archive of these jars with the Java of now."""
    command = os.path.realpath(java.java_command() or "")
    of_java = os.stat(command).st_mtime_ns if os.path.exists(command) else 0
    digest = hashlib.sha256("\n".join([command, str(of_java), *map(str, jars)]).encode()).hexdigest()[:8]
    return f"class-data/{jars[0].parent.parent.name}-{digest}"
