"""Transaction markers in control batches of the log."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.records.batch import decode_batch
from kafkalog.records.control import ControlRecordType, EndTransactionMarker, parse_control_type
from kafkalog.records.errors import InvalidRecordError


class Marker(NamedTuple):
    """Describe the marker that ends a producer's transaction."""

    aborted: bool
    coordinator_epoch: int
    timestamp: int


def parse_marker(batch: memoryview) -> Marker | None:
    """Return the marker in a control batch, or None for a control record of another type.

    Raises:
        InvalidRecordError: the batch holds no control record, or one too short.
    """
    _, records = decode_batch(batch, 0, check_crc=False)
    if not records:
        raise InvalidRecordError("control batch without a record")
    kind = parse_control_type(records[0].key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    marker = EndTransactionMarker.parse(records[0])
    return Marker(kind is ControlRecordType.ABORT, marker.coordinator_epoch, records[0].timestamp)
