"""What the upgrading kernel and its callers share: the numbers of its words (see `table.py` before changing one)."""

from __future__ import annotations

SIZE = 0
COUNT = 1
FIRST_TIMESTAMP = 2
LATEST = 3
EARLIEST = 4
NULL_KEYS = 5
LAST_OFFSET = 6
WORDS = 7
