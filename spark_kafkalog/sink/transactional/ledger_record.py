"""The contents of the ledger, and their text form as metadata of committed offsets.

Brokers accept 4096 characters of metadata for each partition (`offset.metadata.max.bytes`). So a record is compressed
and, if necessary, cut into pieces for several partitions, all committed in one transaction. Each piece has the number
of its writing and the count of its pieces, to distinguish it from older pieces in partitions that are no longer used.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from spark_kafkalog.sink.transactional.errors import LedgerError

PIECE_CHARACTERS = 4096
_FORMAT = "k1"
_HEAD_CHARACTERS = 40
"""Characters reserved for the head of a piece: format, number, index and count, with semicolons."""


class State(StrEnum):
    """The state of the claim that the ledger names."""

    CLAIMED = "claimed"
    """Tasks may be running; nothing is committed."""
    DECIDED = "decided"
    """Its transactions must be committed; some may have been already."""
    DONE = "done"
    VOID = "void"
    """It was given up: its transactions must be aborted."""


class TaskTransaction(NamedTuple):
    """A transaction that a task has left open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True)
class Record:
    """The ledger's contents.

    `claim` is the number of the latest claim, 0 if there was none. `query` and `batch` name the micro-batch that
    was decided last, "" and -1 if there was none; decisions of batch queries do not change them. `transactions` are
    those of a decision.
    """

    claim: int = 0
    state: State = State.DONE
    query: str = ""
    batch: int = -1
    transactions: tuple[TaskTransaction, ...] = ()
    number: int = 0
    """The number of the writing; each is one more than the one before."""

    def claimed(self, now_ms: int) -> Record:
        """Return the next claim. Its number is larger than all earlier ones, even those of a ledger that was lost."""
        return replace(
            self, claim=max(self.claim + 1, now_ms), state=State.CLAIMED, transactions=(), number=self.number + 1
        )

    def decided(self, transactions: Iterable[TaskTransaction], query: str | None, batch: int | None) -> Record:
        """Return this claim as decided; `query` and `batch` are None for a batch query."""
        return replace(
            self,
            state=State.DECIDED,
            transactions=tuple(transactions),
            query=self.query if query is None else query,
            batch=self.batch if batch is None else batch,
            number=self.number + 1,
        )

    def ended(self, state: State) -> Record:
        """Return this claim as done or void."""
        return replace(self, state=state, transactions=(), number=self.number + 1)


def encode(record: Record, prefix: str, pieces: int, characters: int = PIECE_CHARACTERS) -> list[str]:
    """Encode the record as at most `pieces` texts of at most `characters` each.

    Transactional ids begin with `prefix`, which is left out.

    Raises:
        LedgerError: The record does not fit.
    """
    transactions = [(each[0].removeprefix(prefix), *each[1:]) for each in record.transactions]
    fields = [record.claim, record.state, record.query, record.batch, transactions]
    packed = zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 9)
    text = base64.b85encode(packed).decode()
    room = characters - _HEAD_CHARACTERS
    count = max(-(-len(text) // room), 1)
    if count > pieces:
        raise LedgerError(
            f"the transactions of {len(transactions)} tasks do not fit into the metadata of {pieces} partitions: write "
            "with fewer tasks (coalesce), or name a topic with more partitions as ledgerTopic"
        )
    head = f"{_FORMAT};{record.number}"
    return [f"{head};{index};{count};{text[index * room : (index + 1) * room]}" for index in range(count)]


def decode(texts: Iterable[str], prefix: str) -> Record:
    """Decode the latest record among pieces, which may belong to several writings; an empty one if there are none.

    Raises:
        LedgerError: A piece of the latest record is missing, or a text is not a piece.
    """
    writings: dict[int, dict[int, tuple[int, str]]] = {}
    for text in texts:
        number, index, count, part = _piece(text)
        writings.setdefault(number, {})[index] = count, part
    if not writings:
        return Record()
    number = max(writings)
    pieces = writings[number]
    count = next(iter(pieces.values()))[0]
    if set(pieces) != set(range(count)):
        raise LedgerError(f"of writing {number} of the ledger there are {len(pieces)} of {count} pieces")
    return _unpack("".join(pieces[index][1] for index in range(count)), number, prefix)


def _piece(text: str) -> tuple[int, int, int, str]:
    parts = text.split(";", 4)
    if len(parts) == 5 and parts[0] == _FORMAT and all(each.isascii() and each.isdigit() for each in parts[1:4]):
        return int(parts[1]), int(parts[2]), int(parts[3]), parts[4]
    raise LedgerError(f"the ledger holds something else: {text[:60]!r}")


def _unpack(text: str, number: int, prefix: str) -> Record:
    try:
        claim, state, query, batch, transactions = json.loads(zlib.decompress(base64.b85decode(text)))
        decided = tuple(
            TaskTransaction(f"{prefix}{name}", int(producer_id), int(epoch))
            for name, producer_id, epoch in transactions
        )
        return Record(int(claim), State(state), str(query), int(batch), decided, number)
    except (ValueError, TypeError, zlib.error) as error:
        raise LedgerError(f"writing {number} of the ledger cannot be understood: {error}") from None
