"""JSON files that name partitions, in the forms of Kafka's tools. Pure, but for `read_file`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafkalog.cli.shared.client_options import UsageError
from kafkalog.cli.shared.ids import is_int32
from kafkalog.client.types import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"
"""The name of a log directory that the broker may choose."""


class Placed(NamedTuple):
    """The target of a partition: its brokers, the preferred leader first, and a log directory on each."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    """Absolute paths, or ANY_DIRECTORY; as many as there are replicas."""


def read_file(path: str, option: str) -> Any:
    """Return a file's JSON.

    Raises:
        UsageError: It cannot be read, or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{option} {path}: the file is not valid JSON: {error}") from None


def parse_reassignment(document: Any, where: str) -> dict[TopicPartition, Placed]:
    """Return the assignments of `{"version":1,"partitions":[{"topic":…,"partition":…,"replicas":[…]}]}`.

    Raises:
        UsageError: The document has another form, names a partition twice, or a broker twice for one partition. The
            text begins with `where`.
    """
    found: dict[TopicPartition, Placed] = {}
    for each in _entries(document, where, "partitions"):
        tp, replicas = _partition(each, where), each.get("replicas")
        if (
            not isinstance(replicas, list)
            or not replicas
            or not all(map(is_int32, replicas))
            or len(set(replicas)) < len(replicas)
        ):
            raise UsageError(f"{where}: {tp} needs a list of different broker ids as its replicas, not {replicas!r}")
        directories = each.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
        if not _is_list(directories, str) or len(directories) != len(replicas):
            raise UsageError(f"{where}: {tp} has {len(replicas)} replicas; log_dirs must name as many directories")
        if tp in found:
            raise UsageError(f"{where}: {tp} is named twice")
        found[tp] = Placed(tuple(replicas), tuple(directories))
    return found


def parse_topics(document: Any, where: str) -> list[str]:
    """Return the topics of `{"version":1,"topics":[{"topic":…}]}`; see `parse_reassignment` for errors."""
    names: dict[str, None] = {}
    for each in _entries(document, where, "topics"):
        name = each.get("topic")
        if not isinstance(name, str):
            raise UsageError(f'{where}: expected {{"version":1,"topics":[{{"topic":"words"}}]}}')
        names[name] = None
    return list(names)


def parse_partitions(document: Any, where: str) -> list[TopicPartition]:
    """Return the partitions of `{"partitions":[{"topic":…,"partition":…}]}`; see `parse_reassignment` for errors."""
    found = [_partition(each, where) for each in _entries(document, where, "partitions")]
    twice = [str(tp) for tp, times in Counter(found).items() if times > 1]
    if twice:
        raise UsageError(f"{where}: Replica election data contains duplicate partitions: {','.join(twice)}")
    return found


def reassignment_json(assignments: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Write assignments in the form that `parse_reassignment` reads."""
    partitions = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": list(replicas),
            "log_dirs": [ANY_DIRECTORY] * len(replicas),
        }
        for tp, replicas in sorted(assignments.items())
    ]
    return json.dumps({"version": VERSION, "partitions": partitions}, separators=(",", ":"))


def _entries(document: Any, where: str, field: str) -> Iterator[dict[str, Any]]:
    if not isinstance(document, dict) or not isinstance(document.get(field), list):
        raise UsageError(f"{where}: the field {field} with a list is missing")
    version = document.get("version", VERSION)
    if version != VERSION:
        raise UsageError(f"{where}: Not supported version field value {version}; expected {VERSION}")
    for each in document[field]:
        if not isinstance(each, dict):
            raise UsageError(f"{where}: {json.dumps(each)} is no entry of {field}")
        yield each


def _partition(each: dict[str, Any], where: str) -> TopicPartition:
    topic, partition = each.get("topic"), each.get("partition")
    if not isinstance(topic, str) or not is_int32(partition):
        raise UsageError(f"{where}: {json.dumps(each)} names no topic and partition")
    return TopicPartition(topic, partition)


def _is_list(value: Any, kind: type) -> bool:
    return isinstance(value, list) and all(type(each) is kind for each in value)
