"""The record batches in which expired transactional ids are removed."""

from __future__ import annotations

from collections import deque

from broker.coordinator.transaction.machine import TransactionMachine

TOMBSTONES_AT_ONCE = 200
"""The most ids that are removed in one batch."""
RECORD_BYTES = 40
"""About the bytes that a tombstone has besides the id; the batch has twice as many of its own."""


def first_batch(expired: deque[TransactionMachine], most_bytes: int) -> list[TransactionMachine]:
    """Take the first ids, at least one, whose tombstones fit into one batch: an id may have 32,767 bytes.

    A batch that is too large would keep ids of others from being removed, too.
    """
    batch: list[TransactionMachine] = []
    room = most_bytes - 2 * RECORD_BYTES
    while expired and len(batch) < TOMBSTONES_AT_ONCE:
        room -= len(expired[0].transactional_id.encode()) + RECORD_BYTES
        if batch and room < 0:
            break
        batch.append(expired.popleft())
    return batch
