"""Read format, codec and transaction of produced records from their first bytes, before they are checked.

These decide the way of the records through the broker. They are what the bytes claim; the code that appends the records
verifies them.
"""

from __future__ import annotations

from kafkalog.records.batch import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE, MAGIC, MAGIC_AT, TRANSACTIONAL_FLAG
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE

NO_MAGIC = -1
"""Stands for the magic where the records are too short for an entry of any format."""
_FLAGS_AT = ATTRIBUTES_AT + 1
"""Position of the low byte of a batch's attributes."""
_OLD_ATTRIBUTES_AT = MAGIC_AT + 1
"""Position of the attributes of a message of format v0 or v1."""


class RecordsView:
    """The first entry of `records`, whatever its format.

    Attributes:
        size: bytes of all the records.
        magic: the message format, NO_MAGIC where there is no entry.
        codec: the code of the codec, which may be none of `Codec`.
        is_transactional: whether it is a batch of a transaction.
    """

    __slots__ = ("codec", "is_transactional", "magic", "size")

    def __init__(self, records: memoryview | None) -> None:
        self.is_transactional = False
        self.size = size = 0 if records is None else len(records)
        if records is None or size < MIN_ENTRY_SIZE:
            self.magic, self.codec = NO_MAGIC, 0
            return
        self.magic = magic = records[MAGIC_AT]
        if magic < MAGIC:
            self.codec = records[_OLD_ATTRIBUTES_AT] & CODEC_MASK
            return
        flags = records[_FLAGS_AT]
        self.codec = flags & CODEC_MASK
        if flags & TRANSACTIONAL_FLAG:
            self.is_transactional = magic == MAGIC and size >= HEADER_SIZE
