"""Where a consumer stands: values without behaviour."""

from __future__ import annotations

from typing import NamedTuple

NO_EPOCH = -1


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (-1: unknown), as KIP-320 compares them."""

    offset: int
    epoch: int = NO_EPOCH
