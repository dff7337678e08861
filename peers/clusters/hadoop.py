"""Parts that HDFS and YARN share: Hadoop's version, and starters in Java that are compiled against its jars."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from peers.cache import cached, why_missing
from peers.toolchains import java, maven

HADOOP = "3.5.0"
"""The version that PySpark ships."""
START_DEADLINE_S = 120.0
JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J = """log4j.rootLogger=WARN, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %p %m (%c)%n
"""


def missing(classes: Callable[[], Path]) -> str | None:
    """Return why a starter cannot run here, or None; `classes` compiles it."""
    return java.missing() or java.compiler_missing() or why_missing(classes)


def compiled(name: str, source: Path, coordinates: Sequence[str], folders: Sequence[str] = ()) -> Path:
    """Compile a starter into the cache; return the directory of its classes.

    Args:
        name: The directory's name in the cache.
        source: The starter's source file.
        coordinates: The artifacts that it needs.
        folders: Empty folders that the servers look for on their class path.

    Raises:
        MissingPeerError: The artifacts cannot be fetched, or the file cannot be compiled.
    """

    def compile_into(directory: Path) -> None:
        java.compile_java(maven.classpath(coordinates), source, directory)
        for folder in folders:
            (directory / folder).mkdir(parents=True)
        (directory / "log4j.properties").write_text(_LOG4J)

    return cached(f"{name}/{HADOOP}-{hashlib.sha256(source.read_bytes()).hexdigest()[:8]}", compile_into)
