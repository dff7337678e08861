"""Control records: what transaction coordinators (and KRaft) write into a log among the records.

A control batch (attribute bit 5) holds records whose key says what they are: version int16, type int16. The
value of an ABORT or COMMIT is an end-transaction marker: version int16, coordinator_epoch int32 (KIP-98). A
later version may append fields, so longer keys and values are read.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.errors import InvalidRecordError

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
CURRENT_VERSION = 0


class ControlRecordType(IntEnum):
    """Type of a control record; a type of later versions reads as UNKNOWN."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1


def parse_control_type(key: bytes | None) -> ControlRecordType:
    """Return the type that a control record's key states.

    Raises:
        InvalidRecordError: There is no such key.
    """
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError("control record without a key of 4 bytes")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"control record of version {version}")
    try:
        return ControlRecordType(kind)
    except ValueError:
        return ControlRecordType.UNKNOWN


class EndTransactionMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    type: ControlRecordType
    coordinator_epoch: int

    @classmethod
    def parse(cls, record: Record) -> EndTransactionMarker:
        """Return the marker in `record`.

        Raises:
            InvalidRecordError: It is no end-transaction marker.
        """
        kind = parse_control_type(record.key)
        if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise InvalidRecordError(f"{kind.name} where an end-transaction marker should be")
        if record.value is None or len(record.value) < _MARKER.size:
            raise InvalidRecordError("end-transaction marker of less than 6 bytes")
        version, coordinator_epoch = _MARKER.unpack_from(record.value)
        if version < 0:
            raise InvalidRecordError(f"end-transaction marker of version {version}")
        return cls(kind, coordinator_epoch)

    def encode(
        self,
        *,
        timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_offset: int = 0,
        leader_epoch: int = -1,
    ) -> bytearray:
        """Encode the control batch that ends the transaction of `producer_id`; a coordinator has it appended."""
        if self.type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            raise InvalidRecordError(f"{self.type.name} does not end a transaction")
        record = Record(
            base_offset,
            timestamp,
            _KEY.pack(CURRENT_VERSION, self.type),
            _MARKER.pack(CURRENT_VERSION, self.coordinator_epoch),
        )
        return encode_batch(
            [record],
            base_offset=base_offset,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
            is_control=True,
        )
