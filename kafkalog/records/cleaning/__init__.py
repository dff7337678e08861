"""Log compaction over bytes: which record of each key is the latest, and what is left of a batch.

An `OffsetMap` takes the keys of a part of the log (`index`), within bounded memory. A `BatchFilter` then writes the
batches of the log without the records that a later one of the same key has made superfluous. The rules are those of
Kafka's cleaner (`LogCleaner`, `MemoryRecords.filterTo`, KIP-534):

- a record past the map's latest offset stays; of the others, one that has a key, is the key's latest or later, and is
  no tombstone whose time has come;
- offsets never change: a batch keeps its first and last offset, and its sequence numbers, whatever goes from it;
- a batch of which everything stays is copied byte for byte, unless it holds a tombstone for the first time: then it is
  given its delete horizon, the time from which on tombstones may go (attribute bit 6, base timestamp);
- a batch of which nothing stays goes, unless it holds the last sequence number of its producer: of that the header
  stays;
- compressed batches are decompressed, and compressed again under their codec where something went.

Unlike Kafka's, this cleaner verifies checksums: damaged records are never given a right one.

The loops are kernels. A broker calls `load` when there is something to compact: it compiles them or takes them from
numba's cache; where that fails, plain Python serves, slowly.

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
