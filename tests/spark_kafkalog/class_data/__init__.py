"""Java's archive of the classes that a driver of Spark loads, so that the JVMs of tests start in half of the CPU time.

A driver loads some 12,000 classes. Java maps them from an archive (class data sharing, JEP 350) and neither parses nor
verifies them. `make` writes the archive into the environment before the tests; they run without it, too. A JVM ignores
an archive that was made by another Java, or for other jars.

- `make`     writes the archive: `python -m tests.spark_kafkalog.class_data.make`
- `queries`  what the driver does for it
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for JVMs that end soon, which gain nothing from thorough compilation. Benchmarks do not use them."""
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""A JVM that ignores the archive would say so on standard output."""


def archive() -> Path:
    """Return where this environment has the archive."""
    return Path(sys.prefix) / "share" / "kafkalog" / f"spark-{version('pyspark')}.jsa"


def archive_options() -> str:
    """Return the options of a JVM that uses the archive, separated by blanks; none where there is no archive."""
    file = archive()
    return f"-XX:SharedArchiveFile={file} {_QUIET}" if file.exists() else ""


def short_lived() -> str:
    """Return the options for JVMs of Spark that end soon, with the archive of their classes."""
    return f"{SHORT_LIVED} {archive_options()}"
