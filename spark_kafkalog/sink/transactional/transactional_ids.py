"""Transactional ids of this Python worker: only one process uses an id, and only once in a claim.

A new id for each attempt would be as safe, but brokers remember an id and its producer id for days. So a worker that
Spark keeps (`spark.python.worker.reuse`) reuses an id under a later claim: by then every decided transaction of
earlier claims is committed, and no other can be decided any more.
"""

from __future__ import annotations

import secrets
from itertools import count

from spark_kafkalog.process_cache import ProcessCache

_TOKEN_BYTES = 6


class Names:
    """Makes the ids of one process, and reuses them."""

    def __init__(self, token: str | None = None) -> None:
        self._token = token or secrets.token_hex(_TOKEN_BYTES)
        self._next = count()
        self._used: dict[str, dict[str, int]] = {}
        """By prefix: ids, and the last claim that used each."""

    def take(self, prefix: str, claim: int) -> str:
        """Return an id for a transaction of this claim that nobody else uses in it."""
        used = self._used.setdefault(prefix, {})
        name = next((name for name, last in used.items() if last < claim), None)
        if name is None:
            name = f"{prefix}-{self._token}-{next(self._next)}"
        used[name] = claim
        return name


def is_task_name(prefix: str, name: str) -> bool:
    """Return whether an id is one that `Names` makes with this prefix."""
    token, _, number = name.removeprefix(f"{prefix}-").partition("-")
    is_token = len(token) == 2 * _TOKEN_BYTES and all(each in "0123456789abcdef" for each in token)
    return name.startswith(f"{prefix}-") and is_token and number.isascii() and number.isdigit()


OF_PROCESS: ProcessCache[None, Names] = ProcessCache(1)
"""The ids of this process; a forked process has others."""


def of_process() -> Names:
    """Return the ids of this process."""
    return OF_PROCESS.get(None, Names)
