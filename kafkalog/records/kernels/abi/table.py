"""Columns of the table of batches, and positions in the words that kernels read and fill.

A scan writes one row of int64 for each batch. The row describes the batch whose bytes are `buf[POSITION:POSITION +
SIZE]`. START and END bound its uncompressed records. A scan writes them as positions in `buf`; a decode needs
addresses, since decompressed records lie in other memory.

These numbers are part of the compiled kernels.
"""

from __future__ import annotations

from kafkalog.records import batch

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

LOG_OVERHEAD = batch.LOG_OVERHEAD
HEADER_SIZE = batch.HEADER_SIZE
MAGIC_AT = batch.MAGIC_AT
MAGIC = batch.MAGIC
ATTRIBUTES_AT = batch.ATTRIBUTES_AT
"""Position of the first byte of a batch that its CRC covers."""
MIN_RECORD_SIZE = batch.MIN_RECORD_SIZE
MAX_BASE_OFFSET = (1 << 63) - 1 - (1 << 31)
"""Beyond it the last offset of a batch, or the one after it, might not fit 64 bits."""

# Columns of a decode, as bits.
KEY = 1
VALUE = 2
OFFSET = 4
TIMESTAMP = 8
TIMESTAMP_TYPE = 16
HEADERS = 32

# Addresses of the columns' buffers: offsets (int32, one more than rows), data, validity bitmaps (all ones before).
KEY_OFFSETS = 0
KEY_DATA = 1
KEY_VALID = 2
VALUE_OFFSETS = 3
VALUE_DATA = 4
VALUE_VALID = 5
OFFSETS = 6
TIMESTAMPS = 7
TIMESTAMP_TYPES = 8
HEADERS_OFFSETS = 9
HEADERS_VALID = 10
HEADER_KEY_OFFSETS = 11
HEADER_KEY_DATA = 12
HEADER_VALUE_OFFSETS = 13
HEADER_VALUE_DATA = 14
HEADER_VALUE_VALID = 15
ADDRESSES = 16

# What the columns hold so far.
ROWS = 0
KEY_BYTES = 1
VALUE_BYTES = 2
KEY_NULLS = 3
VALUE_NULLS = 4
HEADER_COUNT = 5
HEADER_KEY_BYTES = 6
HEADER_VALUE_BYTES = 7
HEADER_VALUE_NULLS = 8
STATES = 9

SLACK = 64
"""The most garbage bytes that a kernel may write after its output."""

# Words of `unpack_batches`: addresses of C functions (0 where there is none) and of the room to decompress to, limits,
# and sums: those of all batches taken so far, and those of the current group, which is decoded together.
CRC_FUNCTION = 0
LZ4_FUNCTION = 1
ROOM = 2
ROOM_SIZE = 3
ROOM_USED = 4
MOST_BYTES = 5
MOST_UNPACKED = 6
TOPIC_SIZE = 7
TAKEN_ROWS = 8
TAKEN_BYTES = 9
UNPACKED = 10
GROUP_FETCHED = 11
GROUP_LENGTH = 12
GROUP_ROWS = 13
UNPACKS = 14

GROUP_BYTES = 256 * 1024
"""Bytes of batches that are checked, decompressed and decoded together, while the cache still holds them."""
# Words of `encode_records`: the addresses of Arrow's buffers (0 where there is none), the ends of their data, and the
# arrays' offsets into them. The order is an int64 array of this package, not Arrow's.
IN_KEY_OFFSETS = 0
IN_KEY_DATA = 1
IN_KEY_END = 2
IN_KEY_VALID = 3
IN_KEY_SKIP = 4
IN_VALUE_OFFSETS = 5
IN_VALUE_DATA = 6
IN_VALUE_END = 7
IN_VALUE_VALID = 8
IN_VALUE_SKIP = 9
IN_TIMESTAMPS = 10
IN_HEADERS_OFFSETS = 11
IN_HEADERS_VALID = 12
IN_HEADERS_SKIP = 13
IN_HEADER_KEY_OFFSETS = 14
IN_HEADER_KEY_DATA = 15
IN_HEADER_KEY_SKIP = 16
IN_HEADER_VALUE_OFFSETS = 17
IN_HEADER_VALUE_DATA = 18
IN_HEADER_VALUE_VALID = 19
IN_HEADER_VALUE_SKIP = 20
IN_ORDER = 21
INPUTS = 22
