"""The results of probes, as values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_kafkalog.cluster.probe import MARK, OLDEST_PROBED

SEPARATOR = "\x1e"
"""Stands for the ends of lines in the output of a probe, so that all of it is one line of Spark's pipe."""
_EXECUTOR = re.compile(r"[?&]executorId=([^&]+)")
_URL_HOST = re.compile(r"^https?://(\[[^\]]+\]|[^:/]+)")


@dataclass(frozen=True)
class Connection:
    """An attempt to connect from one host."""

    kind: str
    """`bootstrap` for an address that was given, `broker` for one that a broker has named, `cluster` for the request
    between the two."""
    address: str
    error: str | None


@dataclass(frozen=True)
class Probe:
    """One Python on one host."""

    command: str
    """The path or name that Spark runs."""
    python: str | None = None
    """Its version; None if it does not run."""
    executable: str = ""
    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Versions of packages that matter; None for those that are missing."""
    source: str | None = None
    """The directory that kafkalog is imported from; None if the source cannot be imported."""
    digest: str | None = None
    """Tells apart states of kafkalog's files under one version."""
    kernels: bool | None = None
    """True if the host has compiled kernels; None if that cannot be told."""
    memory: int | None = None
    """Bytes of a process with all that a task imports."""
    failing: Mapping[str, str] = field(default_factory=dict)
    """Modules `pyspark_*` that fail when Spark looks for sources, with their errors."""
    brokers: Sequence[Connection] = ()
    problem: str | None = None
    """The reason why the Python does not run, or why the source cannot be imported."""

    @property
    def minor(self) -> str:
        """The version of Python as far as Spark compares it."""
        return ".".join((self.python or "").split(".")[:2])

    @property
    def version(self) -> str | None:
        return self.packages.get("kafkalog")


@dataclass(frozen=True)
class Executor:
    """The probe of one executor."""

    host: str
    number: str
    """The executor's id; empty if its environment does not tell."""
    probe: Probe


@dataclass(frozen=True)
class Settings:
    """The configuration of an application; see `interpreters`."""

    master: str
    deploy_mode: str = "client"
    environment: Mapping[str, str] = field(default_factory=dict)
    """PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON of the driver's JVM, as far as they are set."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """The application's settings `spark.*`."""
    right_python: str | None = None
    """An interpreter on the driver that is known to have kafkalog."""


@dataclass(frozen=True)
class Survey:
    """All that is known of an application."""

    settings: Settings
    driver: Probe
    executors: Sequence[Executor] = ()
    unseen: int = 0
    """Executors that ran no probe."""
    discovery: str | None = None
    """The error of Spark when it was asked for the source; None if it has found it."""


def read_probe(command: str, output: str, code: int) -> Probe:
    """Return what a probe has printed; `code` is its exit code."""
    for line in output.splitlines():
        if line.startswith(MARK):
            try:
                return _probe(command, json.loads(line[len(MARK) :]))
            except (ValueError, KeyError, TypeError, AttributeError):
                break
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    problem = lines[-1] if lines else f"it ended with exit code {code} and printed nothing"
    if problem.startswith("SyntaxError"):
        problem = f"it is older than Python {OLDEST_PROBED} ({problem})"
    return Probe(command, problem=problem)


def _probe(command: str, found: Mapping[str, Any]) -> Probe:
    return Probe(
        command,
        str(found["python"]),
        str(found["executable"]),
        dict(found["packages"]),
        found["source"],
        found["digest"],
        found["kernels"],
        found["memory"],
        dict(found["failing"]),
        tuple(Connection(each["kind"], each["address"], each["error"]) for each in found["brokers"]),
        found.get("problem"),
    )


def read_executor(command: str, line: str) -> Executor:
    """Return what an executor has sent: the host's name, variables, the exit code and the output, divided by tabs."""
    hostname, number, log_url, code, output = line.split("\t", 4)
    found = _EXECUTOR.search(log_url)
    # A worker names its host in the address of its logs, which tells apart workers of one machine.
    named = _URL_HOST.match(log_url) if found else None
    probe = read_probe(command, output.replace(SEPARATOR, "\n"), int(code or 0))
    return Executor(named[1] if named else hostname, number or (found[1] if found else ""), probe)
