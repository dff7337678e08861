"""Wait for conditions."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(holds: Callable[[], bool], what: str, deadline_s: float = 90.0) -> None:
    """Wait until `holds()` is true; fail with the description `what` at the deadline."""
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, f"waited {deadline_s:g} s in vain: {what}"
        time.sleep(0.02)
