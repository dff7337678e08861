"""Statuses of the kernels of log cleaning, and positions in their arrays of int64.

These numbers are part of the compiled kernels.
"""

from __future__ import annotations

from kafkalog.records import batch
from kafkalog.records.kernels.abi import table

# How a loop over batches ended.
DONE = 0
"""No whole batch is left."""
SPECIAL = 1
"""Python must handle the batch: its codec or magic is not supported here, it is of a transaction, or damaged."""
FULL = 2
"""Indexing: the map is full. Filtering: the output must be written out first."""
BAD = 3
"""The bytes of the records cannot be parsed."""

# An offset map's cells: the key's hash, and its latest offset + 1 (0: the cell is empty).
HASH = 0
HASH_MORE = 1
NEXT_OFFSET = 2
CELL = 3
CELL_BYTES = 8 * CELL

# An offset map's state.
KEY = 0
KEY_MORE = 1
"""The secret of the hash function."""
SLOTS = 2
CAPACITY = 3
"""The number of keys that fills the map."""
ENTRIES = 4
LATEST_OFFSET = 5
"""The map has every record up to this offset; -1 while it is empty."""
START_OFFSET = 6
"""Records before this offset are ignored."""
INDEXED_RECORDS = 7
TURN = 8
"""The number of hashes that the kernel has put into its ring so far."""
WAITING = 9
"""The number of hashes in the ring that are not in the map yet; 0 between two calls."""
MAP_STATE = 10

# A filter's state.
NOW = 0
DELETE_RETENTION = 1
OUT_USED = 2
OUT_POSITION = 3
"""Position of the output's first byte in the cleaned segment."""
INDEX_INTERVAL = 4
BYTES_SINCE_INDEX = 5
MAX_TIMESTAMP = 6
MAX_TIMESTAMP_OFFSET = 7
INDEX_ROWS = 8
RECORDS_READ = 9
RECORDS_KEPT = 10
RECORDS_WITHOUT_KEY = 11
FILTER_STATE = 12

# A row for the indexes.
ROW_OFFSET = 0
ROW_POSITION = 1
ROW_TIMESTAMP = 2
ROW_TIMESTAMP_OFFSET = 3
ROW = 4

# The arguments of `filter_section`.
BY_MAP = 0
KEEP_ALL = 1

GROWTH = 20
"""The most bytes by which a record grows when its timestamp delta counts from another time."""

SLACK = table.SLACK
"""Bytes after decompressed data that may be overwritten."""

HEADER_SIZE = batch.HEADER_SIZE
LOG_OVERHEAD = batch.LOG_OVERHEAD
MAGIC = batch.MAGIC
MAGIC_AT = batch.MAGIC_AT
CRC_AT = batch.CRC_AT
ATTRIBUTES_AT = batch.ATTRIBUTES_AT
LAST_OFFSET_DELTA_AT = batch.LAST_OFFSET_DELTA_AT
BASE_TIMESTAMP_AT = batch.LAST_OFFSET_DELTA_AT + 4
MAX_TIMESTAMP_AT = batch.MAX_TIMESTAMP_AT
PRODUCER_AT = batch.PRODUCER_AT
COUNT_AT = batch.HEADER_SIZE - 4
MIN_RECORD_LENGTH = batch.MIN_RECORD_SIZE - 1
LOG_APPEND_TIME_FLAG = batch.LOG_APPEND_TIME_FLAG
DELETE_HORIZON_FLAG = batch.DELETE_HORIZON_FLAG
CODEC_MASK = batch.CODEC_MASK
SPECIAL_FLAGS = batch.CODEC_MASK | batch.TRANSACTIONAL_FLAG | batch.CONTROL_FLAG
