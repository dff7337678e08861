"""A log of several segments, to damage, and what `verify` finds in it."""

from __future__ import annotations

import os
from pathlib import Path

from broker.log.log_config import LogConfig
from broker.log.tools import targets, verify
from broker.log.tools.checks.findings import Level, Remedy
from kafkalog.records import checking

CONFIG = LogConfig(index_interval_bytes=200, segment_index_bytes=2400)
SEGMENTS = 3
BATCHES = 12
"""Of a segment; each has five records."""


def check(path: Path) -> verify.Report:
    return verify.verify(targets.find([str(path)]), threads=2)


def errors(path: Path) -> list[tuple[str, Remedy]]:
    """(file, remedy) of what is wrong."""
    found = [finding for finding in check(path).all_findings if finding.level is Level.ERROR]
    return [(os.path.basename(finding.file), finding.remedy) for finding in found]


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def positions(path: Path) -> list[tuple[int, int, int]]:
    """(position, size, base offset) of the batches of a sound file."""
    scan = checking.scan(path.read_bytes(), 0, 0)
    return [(row[0], row[1], row[4]) for row in scan.table.tolist()]


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)
