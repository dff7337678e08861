"""A frame becomes a request becomes a handler's call.

A frame that cannot be followed (no header, unknown API, unserved version, malformed body) closes the connection, as
Kafka does: the peer is not one that speaks with us, and no response could be in a form that it understands. The one
exception is ApiVersions, by which a client finds out what is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from struct import Struct

from broker.api.context import Broker, Request
from broker.api.registry import Api, served_apis
from broker.api.versions import reply_unsupported
from broker.net.connection import BadRequestError, Connection
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import ProtocolError, decode_message, decode_request_header

logger = logging.getLogger("kafkalog.broker.api")

_HEADER_START = Struct(">hhi")
"""API key, API version, correlation id: the same in every version of the request header."""


class ApiDispatcher:
    """Serves the frames of every connection of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._apis = served_apis()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def apis(self) -> dict[int, Api]:
        return self._apis

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        try:
            if len(frame) < _HEADER_START.size:
                raise BadRequestError(f"Request of {len(frame)} bytes is too short for a header")
            key, version, correlation_id = _HEADER_START.unpack_from(frame)
            api = self._apis.get(key)
            if api is None:
                raise BadRequestError(f"Received request for api with key {key}, which is not served here")
            if not api.min_version <= version <= api.max_version:
                if key == ApiKey.API_VERSIONS:
                    reply_unsupported(connection, correlation_id, self._apis)
                    return
                raise BadRequestError(f"Received request for {api.key.name} with unsupported version {version}")
            header, position = decode_request_header(frame)
            message, _ = decode_message(api.request_type, version, frame, position)
        except ProtocolError as error:
            raise BadRequestError(f"Error parsing request: {error}") from error
        request = Request(self._broker, connection, header, message)
        try:
            pending = api.handler(request)
        except Exception:
            logger.exception("closing connection from %s: serving %s failed", connection.peer, api.key.name)
            connection.close()
            return
        if pending is not None:
            self._run(connection, api, pending)

    async def settle(self) -> None:
        """Wait for handlers that are still running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _run(self, connection: Connection, api: Api, pending: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await pending
            except Exception:
                logger.exception("closing connection from %s: serving %s failed", connection.peer, api.key.name)
                connection.close()

        task = self._broker.loop.create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
