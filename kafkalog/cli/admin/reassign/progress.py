"""The progress of a reassignment: the bytes that new replicas still lack, and the time that is left. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkalog.client.types import TopicPartition

if TYPE_CHECKING:
    from kafkalog.client.admin.replicas.replica_admin import LogDirInfo, Reassignment

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_MINUTE, _HOUR = 60, 3600


class Progress(NamedTuple):
    """The state of all moves at one moment."""

    partitions: int
    """The number of partitions that are being moved."""
    bytes_left: int
    """The bytes that new replicas still lack, beside the largest replica of their partition."""
    at_s: float
    """The time, by a monotonic clock."""


def progress_of(
    moving: Mapping[TopicPartition, Reassignment], directories: Mapping[int, Mapping[str, LogDirInfo]], at_s: float
) -> Progress:
    """Return how far the reassignments are, given the log directories of all brokers."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for broker, paths in directories.items():
        for info in paths.values():
            for tp, replica in info.replicas.items():
                if tp in moving and not replica.is_future:
                    sizes.setdefault(tp, {})[broker] = replica.size
    left = 0
    for tp, reassignment in moving.items():
        found = sizes.get(tp, {})
        whole = max(found.values(), default=0)
        left += sum(whole - found.get(broker, 0) for broker in reassignment.adding)
    return Progress(len(moving), left, at_s)


def rate(first: Progress, last: Progress) -> float:
    """Return the bytes moved a second between two moments; 0 if that is not known."""
    seconds = last.at_s - first.at_s
    return max(0.0, (first.bytes_left - last.bytes_left) / seconds) if seconds > 0 else 0.0


def told(first: Progress, last: Progress) -> str:
    """Return a line about the progress: partitions, bytes, rate and the time that is left."""
    line = f"{last.partitions} partitions, {size(last.bytes_left)} left"
    speed = rate(first, last)
    if speed <= 0:
        return line
    return f"{line}, {size(speed)}/s, about {duration(last.bytes_left / speed)}"


def size(count: float) -> str:
    """Write a number of bytes with a unit."""
    for unit in _UNITS[:-1]:
        if count < _STEP:
            return f"{count:.0f} {unit}" if unit == _UNITS[0] else f"{count:.1f} {unit}"
        count /= _STEP
    return f"{count:.1f} {_UNITS[-1]}"


def duration(seconds: float) -> str:
    """Write a number of seconds."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
