"""Blocks of producer ids from the controller of a cluster (KIP-730), since `inter.broker.protocol.version` 3.0."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.cluster_links import Connect
from broker.controller.broker_links import BrokerLinks
from broker.metadata.model import ClusterState
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.errors import CoordinatorLoadInProgressError, ErrorCode
from kafkalog.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest

ATTEMPTS = 5
PAUSE_S = 0.1
"""Between attempts: the controller may have changed."""


class ControllerIds:
    """Takes blocks of producer ids from the controller; `take` is a `TakeBlock`.

    Args:
        connect: makes a link to the controller.
        state: returns the newest state of the cluster.
        broker_id: the id of this broker.
        broker_epoch: returns its epoch.
    """

    def __init__(
        self, connect: Connect, state: Callable[[], ClusterState], broker_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._links = BrokerLinks(connect, "producer-ids")
        self._state = state
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch

    async def take(self, least: int) -> range:
        """Have the controller allocate a block; blocks below `least` are thrown away.

        Raises:
            CoordinatorLoadInProgressError: there is no controller, or it refuses: producers ask again, as in Kafka.
        """
        reason = "there is no controller"
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            state = self._state()
            controller = state.brokers.get(state.controller_id)
            if controller is None:
                continue
            request = AllocateProducerIdsRequest(broker_id=self._broker_id, broker_epoch=self._broker_epoch())
            try:
                response = await self._links.to(controller).request(request)
            except LinkError as error:
                reason = str(error)
                continue
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.NONE:
                block = range(response.producer_id_start, response.producer_id_start + response.producer_id_len)
                if block.stop > least:
                    return block
            reason = f"broker {controller.broker_id} answers {code.name}"
        raise CoordinatorLoadInProgressError(f"No block of producer ids: {reason}")

    async def close(self) -> None:
        """Close the links."""
        await self._links.close()
