"""Positions of the words that the upgrading kernel fills (see `table` before you change one)."""

from __future__ import annotations

SIZE = 0
COUNT = 1
FIRST_TIMESTAMP = 2
LATEST = 3
EARLIEST = 4
NULL_KEYS = 5
LAST_OFFSET = 6
WORDS = 7
