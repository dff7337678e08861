"""Java clients from before Kafka 0.11, which write and read the message formats v0 and v1 (`OldClient.java`)."""

from __future__ import annotations

from pathlib import Path

from peers.cache import why_missing
from peers.toolchains import java, maven

VERSIONS = ("0.8.2.2", "0.9.0.1", "0.10.0.1")
_SOURCE = Path(__file__).with_name("OldClient.java")


def jars(version: str) -> list[Path]:
    """Return the jars of a version.

    Raises:
        MissingPeerError: They cannot be fetched.
    """
    return maven.classpath([f"org.apache.kafka:kafka_2.11:{version}"])


def missing(version: str) -> str | None:
    """Return the reason why the client of `version` cannot run here, or None. The first call fetches it."""
    return java.missing() or why_missing(lambda: jars(version))


def run(version: str, bootstrap: str, mode: str, lines: list[str]) -> str:
    """Return what the client prints for `lines`; `mode` is produce or consume."""
    host, port = bootstrap.rsplit(":", 1)
    return java.run_java(jars(version), str(_SOURCE), [host, port, mode], stdin="\n".join(lines) + "\n")
