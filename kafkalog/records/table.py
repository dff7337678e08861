"""What a scan notes of each batch: one row of int64, in these columns.

A row describes the batch whose bytes are `buf[POSITION:POSITION + SIZE]`. START and END bound its records in the
buffer that holds them uncompressed: the same buffer, or another where the batch is compressed.
"""

from __future__ import annotations

POSITION = 0
SIZE = 1
START = 2
END = 3
BASE_OFFSET = 4
LAST_OFFSET_DELTA = 5
CRC = 6
ATTRIBUTES = 7
BASE_TIMESTAMP = 8
MAX_TIMESTAMP = 9
PRODUCER_ID = 10
COUNT = 11
WIDTH = 12

LOG_OVERHEAD = 12
HEADER_SIZE = 61
MAGIC_AT = 16
MAGIC = 2
MAX_BASE_OFFSET = (1 << 63) - 1 - (1 << 31)
"""Beyond it the last offset of a batch, or the one after it, might not fit 64 bits."""

# Columns that a decode is asked for, as bits.
KEY = 1
VALUE = 2
OFFSET = 4
TIMESTAMP = 8
TIMESTAMP_TYPE = 16
HEADERS = 32
