"""Leave out groups about which a cluster gives no answer, and name them, or their broker, in the log once.

MirrorMaker 2 leaves them out, too. Source: `MirrorCheckpointTask.sourceRecordsForGroup`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

from kafkalog.client.admin import Admin
from kafkalog.client.admin.groups.descriptions import CommittedOffset, GroupDescription, is_of_consumers
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import GroupAuthorizationFailedError, KafkaError

logger = logging.getLogger(__name__)
T = TypeVar("T")
Positions = dict[TopicPartition, CommittedOffset]
PATIENCE_S = 10.0
"""The time for which coordinators are asked. Other jobs wait that long for one that does not answer."""


class Refusals:
    """The warnings about refused groups, each logged once; for one thread."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, what: str, error: Exception, rights: str) -> None:
        """Log, unless it was logged before, what is not done because of an error, and the rights that it needs."""
        text = f"{what}: {error.message if isinstance(error, KafkaError) else error}"
        if isinstance(error, GroupAuthorizationFailedError):
            text += f". The mirror needs {rights}"
        # How long and how often a coordinator was asked differs each time.
        news = f"{what}: no answer" if isinstance(error, ClientTimeoutError) else text
        if news not in self._said:
            logger.warning("%s", text)
            self._said.add(news)


def ask_each(
    groups: Iterable[str],
    ask: Callable[[Iterable[str]], Mapping[str, T | Exception]],
    refused: Callable[[str, Exception], None],
) -> dict[str, T]:
    """Ask for groups; leave out those that are refused, and those whose coordinator does not answer.

    Args:
        groups: Their names.
        ask: Asks for several groups, and returns for each what is found or an error.
        refused: Is called with each group that is left out, and its error.

    Raises:
        ClientError: The cluster cannot be asked.
    """
    found: dict[str, T] = {}
    for name, outcome in ask(groups).items():
        if isinstance(outcome, Exception):
            refused(name, outcome)
        else:
            found[name] = outcome
    return found


def consumer_groups(admin: Admin, where: str, refusals: Refusals) -> list[str]:
    """List the consumer groups of a cluster; leave out those of brokers that do not answer in `PATIENCE_S`.

    So does MirrorMaker 2. Source: `MirrorCheckpointConnector.listConsumerGroups`.

    Args:
        admin: The cluster.
        where: What to call it.
        refusals: Names the brokers.

    Raises:
        KafkaError, ClientError: No broker answers.
    """
    found: set[str] = set()
    for node_id, listed in admin.groups.list_groups_each(timeout=PATIENCE_S).items():
        if isinstance(listed, Exception):
            what = f"the groups whose coordinator is broker {node_id} of the {where} are left out"
            refusals.say(what, listed, f"Describe on the groups in the {where}")
        else:
            found |= {each.group for each in listed if is_of_consumers(each.protocol_type)}
    return sorted(found)


def describing(admin: Admin) -> Callable[[Iterable[str]], Mapping[str, GroupDescription | Exception]]:
    """Return what asks a cluster to describe groups, for `PATIENCE_S`."""
    return partial(admin.groups.describe_groups_each, timeout=PATIENCE_S)


def offsets_of(admin: Admin) -> Callable[[Iterable[str]], Mapping[str, Positions | Exception]]:
    """Return what asks a cluster for the positions of groups, for `PATIENCE_S`."""
    return partial(admin.groups.offsets_each, timeout=PATIENCE_S)
