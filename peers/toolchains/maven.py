"""Resolve artifacts of Maven Central and their dependencies, by the ordinary `mvn`."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from peers.cache import MissingPeerError, cached, fetch

_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peers</groupId><artifactId>peers</artifactId><version>1</version><packaging>pom</packaging>
<repositories><repository><id>gcs-maven-central-mirror</id><url>https://repo.maven.apache.org/maven2</url></repository>
</repositories><dependencies>{dependencies}</dependencies></project>
"""
# Spark's artifacts name a mirror of Maven Central that is not reachable everywhere. This one replaces it by its id.


def missing() -> str | None:
    """Return why artifacts cannot be fetched here, or None. Cached artifacts need no Maven."""
    return None if shutil.which("mvn") else "missing because mvn (Apache Maven) is not installed"


def _dependency(coordinates: str) -> str:
    group, artifact, version = (escape(part) for part in coordinates.split(":"))
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>"
    )


def cache_name(coordinates: Sequence[str]) -> str:
    """Return the cache's directory name for a list of `group:artifact:version`."""
    digest = hashlib.sha256("\n".join(coordinates).encode()).hexdigest()[:8]
    _, artifact, version = coordinates[0].split(":")
    return f"maven/{artifact}-{version}-{digest}"


def classpath(coordinates: Sequence[str]) -> list[Path]:
    """Return the jars of `coordinates` (each `group:artifact:version`) and their run-time dependencies.

    Raises:
        MissingPeerError: Maven is absent or cannot fetch them.
    """

    def resolve(directory: Path) -> None:
        if reason := missing():
            raise MissingPeerError(reason)
        (directory / "pom.xml").write_text(_POM.format(dependencies="".join(map(_dependency, coordinates))))
        fetch(
            ", ".join(coordinates),
            ["mvn", "-q", "-B", _PLUGIN, "-DoutputDirectory=libs", "-DincludeScope=runtime"],
            directory,
        )

    return sorted((cached(cache_name(coordinates), resolve) / "libs").glob("*.jar"))
