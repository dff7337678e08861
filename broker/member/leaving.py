"""Has the controller move leaderships before this broker stops (controlled shutdown)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.cluster_links import Connect
from broker.config.server import BrokerConfig
from broker.metadata.model import BrokerRegistration
from broker.net.links.link_errors import LinkError
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

logger = logging.getLogger(__name__)


async def leave(
    config: BrokerConfig,
    broker: BrokerRegistration,
    controller: Callable[[], BrokerRegistration | None],
    connect: Connect,
    unregistered: asyncio.Event,
) -> None:
    """Ask until no leadership is left here, but only as often as configured, and while this broker is registered.

    `unregistered` is set when the broker has given up its roles, because it is no longer registered: then there is
    nothing left to move. A controller that cannot reach ZooKeeper either would leave the question unanswered.
    """
    asking = asyncio.ensure_future(_ask_repeatedly(config, broker, controller, connect))
    ending = asyncio.ensure_future(unregistered.wait())
    try:
        await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (asking, ending):
            task.cancel()
        await asyncio.gather(asking, ending, return_exceptions=True)
    if asking.cancelled():
        logger.warning("The broker stops without a move of leaderships: it has given them up")
    else:
        # An error that nobody has foreseen is not lost.
        asking.result()


async def _ask_repeatedly(
    config: BrokerConfig,
    broker: BrokerRegistration,
    controller: Callable[[], BrokerRegistration | None],
    connect: Connect,
) -> None:
    attempts = config["controlled.shutdown.max.retries"]
    for attempt in range(1, attempts + 1):
        remaining = await _ask(config, broker, controller(), connect)
        if remaining == 0:
            logger.info("The controller has moved the leaderships of this broker")
            return
        if attempt < attempts:
            await asyncio.sleep(config["controlled.shutdown.retry.backoff.ms"] / 1000)
    logger.warning("The broker stops although the controller has not moved all of its leaderships")


async def _ask(
    config: BrokerConfig, broker: BrokerRegistration, controller: BrokerRegistration | None, connect: Connect
) -> int | None:
    """Ask once; return the number of leaderships left, or None where there was no answer."""
    if controller is None:
        logger.info("The controller is not known, so that it cannot move leaderships")
        return None
    version = config.protocol_version.request_version(ApiKey.CONTROLLED_SHUTDOWN)
    request = ControlledShutdownRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    try:
        link = connect(controller, "controlled-shutdown")
    except LinkError as error:
        logger.warning("The controller cannot be reached: %s", error)
        return None
    try:
        response: ControlledShutdownResponse = await link.request(request, max_version=version, min_version=version)
    except (LinkError, KafkaError) as error:
        logger.warning("The controller cannot be asked to move leaderships: %s", error)
        return None
    finally:
        await link.close()
    if response.error_code:
        logger.warning("The controller does not move leaderships: %s", ErrorCode.of(response.error_code).name)
        return None
    if response.remaining_partitions:
        logger.info("%d leaderships are left to move", len(response.remaining_partitions))
    return len(response.remaining_partitions)
