"""What every foreign client can do for a test, and what it says when the broker refuses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 30.0
DEFAULT_MAX_REQUEST = 1 << 20


@dataclass(frozen=True)
class Record:
    """One record as a client sends it (offset -1; timestamp None: the client's clock) or got it."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    offset: int = -1


class ClientError(Exception):
    """The client reports a failure; `code` is Kafka's error code, or -1 when the client found it itself."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class ForeignClient(ABC):
    """One client library connected to one bootstrap address.

    `codecs`: what it compresses and decompresses. `features`: which of the methods below it has, and what it
    can carry: "idempotent", "transactions", "timestamps" (sets them), "null_record" (neither key nor value),
    "null_header", "admin", "list_offset", "max_timestamp", "delete_records", "describe_config", "acks_0",
    "consume_all".
    """

    name: ClassVar[str]
    codecs: tuple[str, ...] = CODECS
    features: frozenset[str] = frozenset()

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @classmethod
    @abstractmethod
    def missing(cls) -> str | None:
        """Why the client cannot run here, or None. Fetches it the first time."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create and return when the broker says so."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        partition: int,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transaction: str = "",
        max_request: int = DEFAULT_MAX_REQUEST,
    ) -> list[int]:
        """Send all, wait for all; the offsets told (-1 where acks=0 tells none).

        `transaction`: "commit" or "abort" puts the records in a transaction ended so. ClientError on failure.
        """

    @abstractmethod
    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        """The records of an assigned partition with start <= offset < end, in the order got."""

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        """Offsets got of each partition, in order, by one consumer that is assigned them all, from 0 to `ends`."""
        raise AssertionError(f"{self.name} has no consume_all")

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        """(offset, timestamp) of "earliest", "latest", "max_timestamp" or a time in ms; -1: there is none."""
        raise AssertionError(f"{self.name} has no list_offset")

    def describe_config(self, topic: str) -> dict[str, str | None]:
        """Every config of a topic."""
        raise AssertionError(f"{self.name} has no describe_config")

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        """Set configs of a topic (incrementally, or in place of all: as the client does it)."""
        raise AssertionError(f"{self.name} has no alter_config")

    def partition_count(self, topic: str) -> int:
        """How many partitions metadata tells of."""
        raise AssertionError(f"{self.name} has no partition_count")

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        raise AssertionError(f"{self.name} has no create_partitions")

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """The log start offset after deleting what is below `before`."""
        raise AssertionError(f"{self.name} has no delete_records")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        raise AssertionError(f"{self.name} has no delete_topic")

    def close(self) -> None:  # noqa: B027 - most clients hold nothing
        """End what the client holds."""
