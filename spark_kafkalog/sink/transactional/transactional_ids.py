"""Transactional ids of this Python worker: each is used by one process alone, and once in a claim.

Another id for each attempt would be as safe, but brokers remember an id and its producer id for days. A worker that
Spark keeps (``spark.python.worker.reuse``) takes an id again when a later claim exists: then all that was decided
before is committed, and what was not never will be.
"""

from __future__ import annotations

import secrets
from itertools import count

from spark_kafkalog.process_cache import ProcessCache

_TOKEN_BYTES = 6


class Names:
    """The ids that one process has made."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token or secrets.token_hex(_TOKEN_BYTES)
        self._next = count()
        self._used: dict[str, dict[str, int]] = {}
        """By prefix, ids and the claims that they were used in last."""

    def take(self, prefix: str, claim: int) -> str:
        """An id for a transaction of this claim, which nobody else has or gets for it."""
        used = self._used.setdefault(prefix, {})
        name = next((name for name, last in used.items() if last < claim), None)
        if name is None:
            name = f"{prefix}-{self._token}-{next(self._next)}"
        used[name] = claim
        return name


def is_task_name(prefix: str, name: str) -> bool:
    """Whether an id is one of those that `Names` makes with this prefix."""
    token, _, number = name.removeprefix(f"{prefix}-").partition("-")
    is_token = len(token) == 2 * _TOKEN_BYTES and all(each in "0123456789abcdef" for each in token)
    return name.startswith(f"{prefix}-") and is_token and number.isascii() and number.isdigit()


OF_PROCESS: ProcessCache[None, Names] = ProcessCache(1)
"""The ids of this process; one that was forked off has others."""


def of_process() -> Names:
    """The ids of this process."""
    return OF_PROCESS.get(None, Names)
