"""Groups that a cluster refuses to tell about: they do not hold the other ones up, and each is named once.

MirrorMaker 2 leaves them out, too. Source: `MirrorCheckpointTask.sourceRecordsForGroup`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkalog.client.consumer.classic.protocol import MalformedMemberDataError
from kafkalog.protocol.errors import GroupAuthorizationFailedError, KafkaError

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Refusals:
    """The warnings about refused groups, each logged once; for one thread."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, what: str, error: Exception, rights: str) -> None:
        """Log, unless it was logged before, what is not done because of an error, and the rights that it needs."""
        text = f"{what}: {error.message if isinstance(error, KafkaError) else error}"
        if isinstance(error, GroupAuthorizationFailedError):
            text += f". The mirror needs {rights}"
        if text not in self._said:
            logger.warning("%s", text)
            self._said.add(text)


def ask_each(
    groups: Iterable[str], ask: Callable[[Iterable[str]], dict[str, T]], refused: Callable[[str, Exception], None]
) -> dict[str, T]:
    """Ask for groups, for all at once if that is possible; leave out those that are refused.

    Args:
        groups: Their names.
        ask: Asks for several groups, and raises the first error.
        refused: Is called with each group that is left out, and its error.

    Raises:
        ClientError: The cluster cannot be asked.
    """
    names = list(groups)
    try:
        return ask(names)
    except (KafkaError, MalformedMemberDataError) as error:
        if len(names) > 1:
            # Halves find one group among many with few requests.
            half = len(names) // 2
            return ask_each(names[:half], ask, refused) | ask_each(names[half:], ask, refused)
        for name in names:
            refused(name, error)
        return {}
