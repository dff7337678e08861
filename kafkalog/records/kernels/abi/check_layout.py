"""Positions of the counts that the log-checking kernel fills (see `table` before you change one)."""

from __future__ import annotations

RECORDS = 0
KEY_BYTES = 1
VALUE_BYTES = 2
NULL_KEYS = 3
NULL_VALUES = 4
HEADERS = 5
HEADER_BYTES = 6
LARGEST_KEY = 7
LARGEST_VALUE = 8
COUNTS = 9

BAD_CRC = -1
"""No status of `abi.status`: the checksum of a batch is wrong."""
