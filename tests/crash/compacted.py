"""Check a compacted partition after a power cut: records may be removed, but every key must remain."""

from __future__ import annotations

from broker.log.log import Log
from kafkalog.records.batch import decode_batch, iter_headers

Records = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value, by offset."""


def records_of(log: Log) -> Records:
    """Return every record that a log serves, in order."""
    found: Records = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            # Only what was compacted away is left up to the end.
            break
        for position, header in iter_headers(memoryview(data)):
            _, records = decode_batch(data, position)
            for record in records:
                assert record.offset not in found, f"{log}: offset {record.offset} twice"
                found[record.offset] = (record.key, record.value)
            assert header.next_offset > offset, f"{log}: {header} at {offset}"
            offset = header.next_offset
    return found


def check(log: Log, appended: Records, flushed: int, where: str) -> None:
    """Check that only appended records are there, in order, and for each key its latest flushed record or a later one.

    Raises:
        AssertionError: the check fails.
    """
    found = records_of(log)
    assert list(found) == sorted(found), f"{where}: out of order"
    for offset, record in found.items():
        assert appended.get(offset) == record, f"{where}: {offset} is {record}, not {appended.get(offset)}"
    latest = {key: offset for offset, (key, _) in appended.items() if offset < flushed}
    served = {key: offset for offset, (key, _) in found.items()}
    for key, offset in latest.items():
        assert served.get(key, -1) >= offset, f"{where}: key {key!r} of offset {offset} is lost ({served.get(key)})"
