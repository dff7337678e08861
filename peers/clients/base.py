"""The interface of foreign clients, and the error that they raise."""

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
    """A record that a client sends or has received.

    To send, `offset` is -1, and a `timestamp` of None means the client's clock.
    """

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    offset: int = -1


class ClientError(Exception):
    """A failure that the client reports; `code` is Kafka's error code, or -1 if the client itself raised it."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class ForeignClient(ABC):
    """One client library, connected to one bootstrap address.

    `codecs` are those that it can compress and decompress. `features` names the methods below that it has, and what its
    records can have: "idempotent", "transactions", "timestamps" (sets them), "null_record" (neither key nor value),
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
        """Return the reason why the client cannot run here, or None. The first call fetches it."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic; return when the broker has confirmed it."""

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
        """Send all records and wait for them; return their offsets (-1 with acks=0).

        A `transaction` of "commit" or "abort" puts the records in a transaction that ends so.

        Raises:
            ClientError: The client reports a failure.
        """

    @abstractmethod
    def consume(
        self, topic: str, partition: int, start: int, end: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        """Return the records of an assigned partition with start <= offset < end, in the order received."""

    def consume_all(self, topic: str, ends: Sequence[int]) -> list[list[int]]:
        """Consume all partitions with one consumer, from 0 to `ends`; return each partition's offsets in order."""
        raise AssertionError(f"{self.name} has no consume_all")

    def list_offset(self, topic: str, partition: int, at: str) -> tuple[int, int]:
        """Return (offset, timestamp) of "earliest", "latest", "max_timestamp" or a time in ms; -1 if there is none."""
        raise AssertionError(f"{self.name} has no list_offset")

    def describe_config(self, topic: str) -> dict[str, str | None]:
        """Return every config of a topic."""
        raise AssertionError(f"{self.name} has no describe_config")

    def alter_config(self, topic: str, values: Mapping[str, str]) -> None:
        """Set configs of a topic: incrementally or replacing all, as the client does it."""
        raise AssertionError(f"{self.name} has no alter_config")

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions in the metadata."""
        raise AssertionError(f"{self.name} has no partition_count")

    def create_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        raise AssertionError(f"{self.name} has no create_partitions")

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """Delete the records below `before`; return the log start offset."""
        raise AssertionError(f"{self.name} has no delete_records")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        raise AssertionError(f"{self.name} has no delete_topic")

    def close(self) -> None:  # noqa: B027 - most clients hold nothing
        """Close the client's connections."""
