"""Requests about the cluster that come to a broker before the controller has described the cluster to it.

A member of a cluster serves connections before it is registered, because the controller uses them. Until the first
UpdateMetadata request it knows neither brokers nor topics. An answer without them does harm: librdkafka forgets every
broker that it knew, the bootstrap servers as well, and never connects again; a consumer of a pattern of topics gives up
its partitions. So these requests wait, and after a while the connection is closed, so that the client asks another
broker.
"""

from __future__ import annotations

import asyncio
import logging

from broker.api.context import Request

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time that a request waits. A new controller sends UpdateMetadata sooner, even after all brokers were killed."""


async def knows_cluster(request: Request) -> bool:
    """Wait until this broker knows its cluster; if that takes too long, drop the request and return False."""
    cache = request.broker.metadata
    if cache.is_known:
        return True
    try:
        async with asyncio.timeout(PATIENCE_S):
            await cache.become_known()
    except TimeoutError:
        logger.info(
            "%s of %s is not answered, and its connection is closed: the controller has not told this broker of the "
            "cluster yet",
            type(request.message).__name__,
            request.connection.peer,
        )
        request.drop()
        return False
    return True
