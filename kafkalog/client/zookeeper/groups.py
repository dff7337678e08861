"""Groups in ZooKeeper as tools see them: their members, owners and offsets, and offsets in files.

A file of offsets has a line for each partition, as `ExportZkOffsets` of Kafka 0.8 writes it:

    /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.steps import Children, Read, Steps

_LINE = re.compile(r"/consumers/([^/\s]+)/offsets/([^/\s]+)/([0-9]{1,9}):([0-9]{1,19})")


class OffsetFileError(ClientError):
    """A line of a file of offsets cannot be read; the text names the line."""


class GroupNodes(NamedTuple):
    """The contents of a group's nodes in ZooKeeper."""

    members: list[str]
    """The ids of the members that live."""
    owners: dict[TopicPartition, str]
    """The stream that owns each partition."""
    offsets: dict[TopicPartition, int]
    """The committed offsets."""


def list_groups() -> Steps[list[str]]:
    """List the groups that ZooKeeper has nodes of, sorted."""
    return sorted((yield Children(nodes.CONSUMERS)) or ())


def read_group(name: str) -> Steps[GroupNodes | None]:
    """Read a group; None where there is none.

    Raises:
        MalformedNodeError: A node holds no offset.
    """
    if (yield Read(nodes.group(name))) is None:
        return None
    members = sorted((yield Children(nodes.members(name))) or ())
    owners = {tp: data.decode("utf-8", "replace") for tp, _, data in (yield from _below(nodes.all_owners(name)))}
    offsets = {}
    for tp, path, data in (yield from _below(nodes.group_offsets(name))):
        if (offset := nodes.parse_offset(path, data)) >= 0:
            offsets[tp] = offset
    return GroupNodes(members, owners, offsets)


def _below(path: str) -> Steps[list[tuple[TopicPartition, str, bytes]]]:
    """Read the nodes of partitions below a path: TOPIC/PARTITION."""
    found = []
    for topic in sorted((yield Children(path)) or ()):
        names = [each for each in (yield Children(f"{path}/{topic}")) or () if each.isascii() and each.isdecimal()]
        for name in sorted(names, key=int):
            node = yield Read(f"{path}/{topic}/{name}")
            if node is not None:
                found.append((TopicPartition(topic, int(name)), f"{path}/{topic}/{name}", node.data))
    return found


def offset_lines(groups: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    """Return the lines of a file of offsets, without line ends."""
    return [
        f"{nodes.offset(group, tp)}:{offset}"
        for group, offsets in sorted(groups.items())
        for tp, offset in sorted(offsets.items())
    ]


def parse_offset_lines(lines: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets of a file by group. Empty lines are left out.

    Raises:
        OffsetFileError: A line is not of that form, or a partition has two offsets.
    """
    found: dict[str, dict[TopicPartition, int]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None or int(match[4]) >= 1 << 63:
            raise OffsetFileError(
                f"line {number}: {line.strip()[:80]!r}: expected /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        offsets, tp = found.setdefault(match[1], {}), TopicPartition(match[2], int(match[3]))
        if offsets.setdefault(tp, int(match[4])) != int(match[4]):
            raise OffsetFileError(f"line {number}: {tp} of group {match[1]} has another offset in a line before")
    return found
