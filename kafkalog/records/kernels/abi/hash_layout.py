"""Positions of the words that tell the hashing kernel where the keys are (see `table` before you change one)."""

from __future__ import annotations

KEY_OFFSETS = 0
"""Address of the keys' offsets (int32, one more than there are keys)."""
KEY_DATA = 1
"""Address of their bytes."""
KEY_VALID = 2
"""Address of the validity bitmap; 0 where every key is valid."""
KEY_SKIP = 3
"""The Arrow array's offset into its buffers."""
KEY_WORDS = 4
