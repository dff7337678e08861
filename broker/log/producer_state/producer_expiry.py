"""Forgetting silent producers of many logs, in turns: each takes the event loop's thread for a short time only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from broker.log.producer_state.producer_state_manager import ProducerStateManager

PRODUCERS_AT_ONCE = 20_000
"""The number of producers that are looked at in one turn: about 4 ms."""
PRODUCERS_OF_LOG = 200
"""A log takes as much time as so many producers, besides its own."""


async def remove_expired(logs: Iterable[ProducerStateManager], now_ms: Callable[[], int]) -> None:
    """Forget the producers that were silent for `producer.id.expiration.ms`.

    Args:
        logs: the producers of each log.
        now_ms: returns milliseconds since the epoch.
    """
    room = PRODUCERS_AT_ONCE
    for producers in logs:
        known = list(producers.producers)
        room -= PRODUCERS_OF_LOG
        # At least once, because not all that a log remembers is a producer.
        for first in range(0, max(len(known), 1), PRODUCERS_AT_ONCE):
            some = known[first : first + PRODUCERS_AT_ONCE]
            if room < len(some):
                await asyncio.sleep(0)
                room = PRODUCERS_AT_ONCE
            room -= len(some)
            producers.remove_expired(now_ms(), some)
