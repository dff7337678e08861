"""Runs of offsets, and the headers of an offset sync that hold them. Pure.

MirrorMaker 2 stores pairs of offsets. A pair tells of one record where it is on both sides, and compaction leaves the
newest pair of each partition only. So the mirror adds headers to the pair, which say of more records where they are.
MirrorMaker 2 reads key and value, and ignores headers (`OffsetSync.deserializeRecord`, `OffsetSyncStore.handleRecord`).

- `kafkalog.runs`: the runs of the transaction that wrote the pair. Without it, the pair is a run of one record.
- `kafkalog.runs.before`: the runs before those, as far as they are kept. Not every pair has it.

| bytes                        | what                                                                         |
|------------------------------|------------------------------------------------------------------------------|
| int8                         | version, 0                                                                   |
| varlong                      | how many runs follow, at most `MOST_RUNS_STORED`                             |
| for each, the last one first | varlongs: how many offsets of the source, and of the target, are between its |
|                              | end and the beginning of the one after it; its length                        |

The first one in the bytes ends before what follows the pair. Varlongs are those of record batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkalog.mirror.internal_topics.formats import FormatError, OffsetSync
from kafkalog.records.errors import CorruptRecordError
from kafkalog.records.varint import append_varint, read_varlong

OWN, BEFORE = "kafkalog.runs", "kafkalog.runs.before"
MOST_RUNS_STORED = 256
"""The most runs that a header has; with offsets that are usual they take one to two KB."""
_VERSION = 0
_LEAST_BYTES = 3
"""The fewest bytes that a run takes."""

Headers = Sequence[tuple[str, bytes | None]]


class Run(NamedTuple):
    """`length` records with consecutive offsets on both sides; 0 for a position before the first record."""

    upstream: int
    downstream: int
    length: int

    @property
    def ends(self) -> tuple[int, int]:
        """The offsets after its last record, in the source and in the target."""
        return self.upstream + self.length, self.downstream + self.length


def run_headers(sync: OffsetSync, own: Sequence[Run], before: Sequence[Run] = ()) -> list[tuple[str, bytes]]:
    """Make the headers of a pair.

    Args:
        sync: The pair.
        own: The runs of its transaction, ascending, at most `MOST_RUNS_STORED`.
        before: The ones before them.
    """
    headers = [(OWN, _write(sync, own))]
    return [*headers, (BEFORE, _write(sync, before))] if before else headers


def own_runs(sync: OffsetSync, headers: Headers) -> tuple[Run, ...]:
    """Return the runs of the transaction that wrote a pair; the pair alone, where its headers are not known.

    Raises:
        FormatError: The header has other bytes.
    """
    found = _read(sync, headers, OWN)
    return (Run(sync.upstream, sync.downstream, 1),) if found is None else found


def runs_before(sync: OffsetSync, headers: Headers) -> tuple[Run, ...] | None:
    """Return the runs before those of the transaction; None where the pair has no such header, or an unknown one.

    Raises:
        FormatError: The header has other bytes.
    """
    return _read(sync, headers, BEFORE)


def _write(sync: OffsetSync, runs: Sequence[Run]) -> bytes:
    out = bytearray([_VERSION])
    append_varint(out, len(runs))
    up, down = sync.upstream + 1, sync.downstream + 1
    for run in reversed(runs):
        up_end, down_end = run.ends
        append_varint(out, up - up_end)
        append_varint(out, down - down_end)
        append_varint(out, run.length)
        up, down = run.upstream, run.downstream
    return bytes(out)


def _read(sync: OffsetSync, headers: Headers, name: str) -> tuple[Run, ...] | None:
    data = next((value for key, value in headers if key == name), None)
    # A later version may have other bytes; the pair is right all the same.
    if data is None or data[:1] != bytes([_VERSION]):
        return None
    try:
        return _parse(sync, data)
    except CorruptRecordError as error:
        raise FormatError(f"header {name}: {error}") from None


def _parse(sync: OffsetSync, data: bytes) -> tuple[Run, ...]:
    count, at = read_varlong(data, 1, len(data))
    if not 0 <= count <= min(MOST_RUNS_STORED, (len(data) - at) // _LEAST_BYTES):
        raise CorruptRecordError(f"{count} runs in {len(data) - at} bytes")
    up, down = sync.upstream + 1, sync.downstream + 1
    runs: list[Run] = []
    for _ in range(count):
        up_gap, at = read_varlong(data, at, len(data))
        down_gap, at = read_varlong(data, at, len(data))
        length, at = read_varlong(data, at, len(data))
        if up_gap < 0 or down_gap < 0 or length < 0:
            raise CorruptRecordError(f"a run of {length} records, {up_gap} and {down_gap} before the next one")
        up, down = up - up_gap - length, down - down_gap - length
        if up < 0 or down < 0:
            raise CorruptRecordError(f"a run at the offsets {up} and {down}")
        runs.append(Run(up, down, length))
    if at != len(data):
        raise CorruptRecordError(f"{len(data) - at} bytes after its runs")
    return tuple(reversed(runs))
