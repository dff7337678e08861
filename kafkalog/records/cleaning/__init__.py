"""Log compaction over bytes: find the latest record of each key, and rewrite batches without the others.

An `OffsetMap` takes the keys of a part of the log (`index`), within bounded memory. A `BatchFilter` then writes the
batches of the log without the records that a later one of the same key has made superfluous. The rules are those of
Kafka's cleaner (`LogCleaner`, `MemoryRecords.filterTo`, KIP-534):

- A record past the map's latest offset stays. Any other stays if it has a key, is the key's latest or later, and is
  no tombstone whose time has come.
- Offsets never change: a batch keeps its first and last offset, and its sequence numbers, whichever records it loses.
- A batch that keeps all its records is copied byte for byte, unless it holds a tombstone for the first time: then it is
  given its delete horizon, the time from which on tombstones may go (attribute bit 6, base timestamp).
- A batch that loses all its records goes, unless it holds the last sequence number of its producer: then its header
  stays.
- Compressed batches are decompressed, and compressed again under their codec if they lose records.

Unlike Kafka's, this cleaner verifies checksums: damaged records never get a valid one.

The loops are kernels. A broker calls `load` when it has something to compact: it compiles them or takes them from
their file; where that fails, plain Python does the work, slowly.

The modules:

- `loops`         the loops, compiled or in plain Python
- `offset_map`    the latest offset of each key
- `batch_filter`  what is left of batches
- `room`          memory to decompress batches to
"""

from __future__ import annotations

from kafkalog.records.cleaning.batch_filter import BatchFilter, Written
from kafkalog.records.cleaning.loops import PLAIN, Functions, load, loaded
from kafkalog.records.cleaning.offset_map import OffsetMap
from kafkalog.records.kernels.abi.clean_layout import DONE, FULL, SPECIAL

__all__ = [
    "DONE",
    "FULL",
    "PLAIN",
    "SPECIAL",
    "BatchFilter",
    "Functions",
    "OffsetMap",
    "Written",
    "load",
    "loaded",
]
