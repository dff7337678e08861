"""The controller's way to the brokers: sends them the requests that follow from a decision.

In Apache Kafka this is the ControllerChannelManager. A decision names all the brokers that it concerns
(`requests.requests_for`); a channel reaches every one of them, or says that it cannot.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from broker.controller.decisions.requests import ControlRequests
from broker.replica.hosting.applier import ReplicaApplier, Results
from kafkalog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

NAMED = 5
"""The number of partitions that one line of the broker's log names."""


class ControlChannel(Protocol):
    """Carries requests from the controller to brokers."""

    async def send(self, controller_epoch: int, requests: Mapping[int, ControlRequests]) -> dict[int, Results]:
        """Send each broker its requests; return what each broker answered for each partition.

        A broker that cannot be reached has BROKER_NOT_AVAILABLE for each of its partitions.

        Args:
            controller_epoch: the epoch of the controller that decided.
            requests: the requests by broker id.

        Raises:
            StaleControllerEpochError: a broker knows of a later controller; it has changed nothing.
        """


class LoneChannel:
    """The channel of a lone broker, which is its own controller: it reaches this broker and no other.

    Args:
        broker_id: the id of this broker.
        applier: carries out the requests to this broker.
    """

    def __init__(self, broker_id: int, applier: ReplicaApplier) -> None:
        self._broker_id = broker_id
        self._applier = applier

    async def send(self, controller_epoch: int, requests: Mapping[int, ControlRequests]) -> dict[int, Results]:
        """See `ControlChannel`."""
        answers: dict[int, Results] = {}
        own = requests.get(self._broker_id)
        if own is not None:
            results = answers[self._broker_id] = {}
            if own.leader_and_isr:
                results |= await self._applier.apply_leader_and_isr(controller_epoch, own.leader_and_isr)
            if own.stop_replica:
                results |= await self._applier.stop_replica(controller_epoch, own.stop_replica)
        for broker_id in sorted(requests.keys() - {self._broker_id}):
            answers[broker_id] = _refused(broker_id, self._broker_id, requests[broker_id])
        return answers


def _refused(broker_id: int, own: int, requests: ControlRequests) -> Results:
    """Return the answers for a broker that cannot be reached, and log that it does not get its requests."""
    keys = [each.key for each in requests.leader_and_isr] + [each.key for each in requests.stop_replica]
    logger.error(
        "Broker %d is not told of a decision about %d of its partitions (%s%s), because this broker, %d, reaches no "
        "other. If broker.id was changed, put the old one back",
        broker_id,
        len(keys),
        ", ".join(f"{topic}-{index}" for topic, index in keys[:NAMED]),
        ", …" if len(keys) > NAMED else "",
        own,
    )
    return dict.fromkeys(keys, ErrorCode.BROKER_NOT_AVAILABLE)
