"""The actions of the clients, and the answers that they got."""

from __future__ import annotations

from dataclasses import dataclass, field

ACKS_ALL = -1

PartitionKey = tuple[str, int]


@dataclass(slots=True)
class Sent:
    """A record that a producer has sent, perhaps several times."""

    key: PartitionKey
    acks: int
    is_transactional: bool
    sent_at: float
    offset: int | None = None
    """Its offset, once it was acknowledged."""
    acked_at: float | None = None
    is_checked: bool = False
    """True if the broker drops duplicates of it."""


@dataclass(slots=True)
class Read:
    """A record that a consumer has read."""

    key: PartitionKey
    offset: int
    value: bytes
    asked_at: float


@dataclass(slots=True)
class History:
    """All of it.

    Attributes:
        sent: the records by their values, in the order in which they were sent first.
        read: what consumers have read, by partition and offset.
        complaints: what a client saw that should never happen.
    """

    sent: dict[bytes, Sent] = field(default_factory=dict)
    read: dict[tuple[str, int, int], Read] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    done: int = 0

    def acknowledge(self, values: list[bytes], base_offset: int, now: float) -> None:
        """Note that a batch was acknowledged; a duplicate of an old one has no offset (-1)."""
        for number, value in enumerate(values):
            sent = self.sent[value]
            sent.acked_at = now
            if base_offset >= 0:
                sent.offset = base_offset + number
        self.done += 1

    def note_read(self, key: PartitionKey, offset: int, value: bytes, asked_at: float) -> None:
        """Note a record that a consumer has read; the first one is kept."""
        before = self.read.setdefault((*key, offset), Read(key, offset, value, asked_at))
        if before.value != value:
            # An election may have taken it back in between, and the end decides.
            if asked_at < before.asked_at:
                return
            self.replaced.append((before, value))
            self.read[(*key, offset)] = Read(key, offset, value, asked_at)

    replaced: list[tuple[Read, bytes]] = field(default_factory=list)
    """Reads whose offset had another record later."""
