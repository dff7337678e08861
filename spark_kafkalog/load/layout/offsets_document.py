"""`_offsets.json`: the contents of a load, and where the next one begins. Pure.

The document of the newest published load is the only state of a topic's loads. It is written once and never changed.
Readers must not guess, so a document of another version, or with a missing or wrongly typed field, is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

VERSION = 1


class DocumentError(ValueError):
    """A document that this version cannot read; the message names the field."""


@dataclass(frozen=True)
class PartitionOffsets:
    """Offsets [start, end) of one partition: the next load begins at `end`. `rows`: records among them."""

    start: int
    end: int
    rows: int


@dataclass(frozen=True)
class DataFile:
    """One data file. `path` is relative to the load's directory; timestamps in ms, None if no record has one."""

    path: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    bytes: int
    crc32c: str
    """The CRC-32C of the whole file, eight hexadecimal digits."""
    min_timestamp: int | None
    max_timestamp: int | None


@dataclass(frozen=True)
class Lost:
    """Lost offsets [start, end) of a partition, gone before they were loaded (only with --no-fail-on-data-loss)."""

    partition: int
    start: int
    end: int
    why: str


@dataclass(frozen=True)
class Offsets:
    """The whole document of one load of one topic."""

    topic: str
    topic_id: str
    """The topic's id as Kafka writes it (base64); empty if the brokers have no topic ids."""
    load: int
    previous_load: int | None
    run_id: str
    created_at: str
    """ISO 8601, UTC."""
    format: str
    partitions: Mapping[int, PartitionOffsets]
    files: tuple[DataFile, ...] = ()
    lost: tuple[Lost, ...] = ()
    restarted: bool = False
    """True if this load started over because the topic had been deleted and created again."""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.files)

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(each.bytes for each in self.files)

    @property
    def ends(self) -> dict[int, int]:
        """The offsets where the next load begins, by partition."""
        return {number: each.end for number, each in self.partitions.items()}

    def to_json(self) -> str:
        """Return the document's text, with totals for people and monitoring."""
        times = [
            (each.min_timestamp, each.max_timestamp)
            for each in self.files
            if each.min_timestamp is not None and each.max_timestamp is not None
        ]
        document = {
            "version": VERSION,
            "topic": self.topic,
            "topicId": self.topic_id,
            "load": self.load,
            "previousLoad": self.previous_load,
            "runId": self.run_id,
            "createdAt": self.created_at,
            "format": self.format,
            "restarted": self.restarted,
            "rows": self.rows,
            "bytes": self.size,
            "minTimestamp": min((low for low, _ in times), default=None),
            "maxTimestamp": max((high for _, high in times), default=None),
            "partitions": {str(number): asdict(each) for number, each in sorted(self.partitions.items())},
            "files": [_camel(asdict(each)) for each in self.files],
            "lost": [asdict(each) for each in self.lost],
            "versions": dict(self.versions),
        }
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Offsets:
        """Parse a document.

        Raises:
            DocumentError: This version cannot read the document. The text says what is wrong.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise DocumentError(f"is no JSON: {error}") from None
        top = _Object(document, "the document")
        version = top.take("version", int)
        if version != VERSION:
            raise DocumentError(
                f"version is {version}, and this kafkalog reads version {VERSION}: use the kafkalog that wrote it, or "
                "a newer one"
            )
        found = cls(
            topic=top.take("topic", str),
            topic_id=top.take("topicId", str),
            load=top.take("load", int),
            previous_load=top.take("previousLoad", int, null=True),
            run_id=top.take("runId", str),
            created_at=top.take("createdAt", str),
            format=top.take("format", str),
            restarted=top.take("restarted", bool),
            partitions={
                _partition(number): _partition_offsets(_Object(each, f"partitions.{number}"))
                for number, each in top.take("partitions", dict).items()
            },
            files=tuple(
                _data_file(_Object(each, f"files[{index}]")) for index, each in enumerate(top.take("files", list))
            ),
            lost=tuple(_lost(_Object(each, f"lost[{index}]")) for index, each in enumerate(top.take("lost", list))),
            versions=top.take("versions", dict),
        )
        found._check(top)
        return found

    def _check(self, top: _Object) -> None:
        """Check that the parts of a document agree."""
        if self.load < 0 or (self.previous_load is not None and self.previous_load >= self.load):
            raise DocumentError(f"load {self.load} does not follow load {self.previous_load}")
        for number, each in self.partitions.items():
            if not 0 <= each.start <= each.end:
                raise DocumentError(f"partition {number} has the offsets [{each.start}, {each.end})")
        for file in self.files:
            part = self.partitions.get(file.partition)
            if part is None or not part.start <= file.first_offset <= file.last_offset < part.end:
                raise DocumentError(f"file {file.path} has offsets that the load of partition {file.partition} has not")
        if top.take("rows", int) != self.rows:
            raise DocumentError("rows is not the sum of the files' rows")


class _Object:
    """Reads the fields of a JSON object by name and type."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise DocumentError(f"{where} is no JSON object")
        self._value = value
        self._where = where

    def take(self, name: str, kind: type, *, null: bool = False) -> Any:
        value = self._value.get(name)
        if (null and value is None and name in self._value) or type(value) is kind:
            return value
        raise DocumentError(f"{name} of {self._where} is missing or of the wrong kind: {value!r}")


def _partition(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise DocumentError(f"{text!r} is not a partition's number")
    return int(text)


def _partition_offsets(found: _Object) -> PartitionOffsets:
    return PartitionOffsets(found.take("start", int), found.take("end", int), found.take("rows", int))


def _lost(found: _Object) -> Lost:
    return Lost(found.take("partition", int), found.take("start", int), found.take("end", int), found.take("why", str))


def _data_file(found: _Object) -> DataFile:
    return DataFile(
        path=found.take("path", str),
        partition=found.take("partition", int),
        first_offset=found.take("firstOffset", int),
        last_offset=found.take("lastOffset", int),
        rows=found.take("rows", int),
        bytes=found.take("bytes", int),
        crc32c=found.take("crc32c", str),
        min_timestamp=found.take("minTimestamp", int, null=True),
        max_timestamp=found.take("maxTimestamp", int, null=True),
    )


def _camel(values: dict[str, Any]) -> dict[str, Any]:
    return {re.sub("_(.)", lambda match: match[1].upper(), name): value for name, value in values.items()}
