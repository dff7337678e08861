"""Ask several brokers at once, so that one that does not answer holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import TypeVar

K = TypeVar("K")
T = TypeVar("T")


def ask_at_once(brokers: Collection[K], ask: Callable[[K], T]) -> dict[K, T | Exception]:
    """Call `ask` for each broker, each in a thread of its own; return what it returns or raises, in their order."""
    answers: dict[K, T | Exception] = {}

    def keep(broker: K) -> None:
        try:
            answers[broker] = ask(broker)
        except Exception as error:
            answers[broker] = error

    first, others = list(brokers)[:1], list(brokers)[1:]
    # The process does not wait for them if the caller is interrupted.
    threads = [threading.Thread(target=keep, args=(each,), name="kafkalog-ask", daemon=True) for each in others]
    for thread in threads:
        thread.start()
    for each in first:
        keep(each)
    for thread in threads:
        thread.join()
    return {broker: answers[broker] for broker in brokers}
