"""Decode a frame into a request, and call its handler.

A frame that cannot be decoded (no header, unknown API, unserved version, malformed body) closes the connection, as
Kafka does: the peer does not speak our protocol, and it would not understand any response. The one exception is
ApiVersions, by which a client learns what is served.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Coroutine
from struct import Struct
from typing import Any

from broker.api.context import Broker, Request
from broker.api.errors import ClientGoneError
from broker.api.large import release
from broker.api.loop_time import LoopTime, counted
from broker.api.registry import Api, served_apis
from broker.api.versions import reply_unsupported
from broker.counters import RequestCounter
from broker.net.connection import BadRequestError, Connection
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import (
    ProtocolError,
    RequestHeader,
    TooManyEntriesError,
    decode_message,
    decode_request_header,
    decode_within,
)
from kafkalog.protocol.decoder import ELEMENT_COST

logger = logging.getLogger(__name__)

LARGE_REQUEST = 64 * 1024
"""Requests without record batches are decoded on a worker from this many bytes on: they may hold 10,000s of entries."""
SMALL_REQUEST = 8 * 1024
"""Requests of fewer bytes are decoded on the event loop, whatever they hold."""
ENTRIES_AT_ONCE = 1000
"""The most entries, without record batches, that are decoded on the event loop: some 1 ms for each of many clients."""
BUDGET = 8 * 1024
"""The decoding budget of a request with record batches, some 250 partitions. Larger ones are decoded by a worker."""
MOST_ENTRIES = 2_000_000
"""The most entries of a request. An entry of three bytes takes up to 50 times as much memory once it is decoded."""
MOST_TAGS = 1000
"""The most tagged fields in a request's header; with more, a worker decodes a request that is not small."""
FREED_BY_WORKER = 1 << 20
"""A request's entries are freed by a worker from this many bytes on."""
_HEADER_START = Struct(">hhi")
"""API key, API version, correlation id: the same in every version of the request header."""
_PRODUCE_HEAD = Struct(">h").pack(ApiKey.PRODUCE)


class ApiDispatcher:
    """Serves the frames of every connection of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._apis = served_apis()
        member = broker.member
        self._between: frozenset[str] = frozenset() if member is None else member.listeners
        """The listeners on which APIs between brokers are served."""
        self._counters = {
            key: [RequestCounter(_kafka_name(api), version) for version in range(api.max_version + 1)]
            for key, api in self._apis.items()
        }
        broker.replicas.counters.requests = [counter for each in self._counters.values() for counter in each]
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def apis(self) -> dict[int, Api]:
        return self._apis

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        seconds = self._broker.runtime.seconds
        began = seconds()
        time = LoopTime(began, seconds) if self._broker.quotas.request.limited else None
        try:
            if len(frame) < _HEADER_START.size:
                raise BadRequestError(f"Request of {len(frame)} bytes is too short for a header")
            key, version, correlation_id = _HEADER_START.unpack_from(frame)
            api = self._apis.get(key)
            if api is None or (api.members_only and connection.endpoint.name not in self._between):
                raise BadRequestError(f"Received request for api with key {key}, which is not served here")
            if not api.min_version <= version <= api.max_version:
                if key == ApiKey.API_VERSIONS:
                    reply_unsupported(connection, correlation_id, self._apis, self._between)
                    return
                raise BadRequestError(f"Received request for {api.key.name} with unsupported version {version}")
            if len(frame) >= LARGE_REQUEST and not api.has_records:
                self._start_large(connection, api, connection.keep_frame(frame), began, time)
                return
            if api.has_records or len(frame) >= SMALL_REQUEST:
                header, position = decode_request_header(frame, 0, MOST_TAGS)
                budget = BUDGET if api.has_records else ENTRIES_AT_ONCE * ELEMENT_COST + len(frame)
                message = decode_within(api.request_type, version, frame, position, budget)
            else:
                header, position = decode_request_header(frame)
                message, _ = decode_message(api.request_type, version, frame, position)
        except TooManyEntriesError:
            self._start_large(connection, self._apis[key], connection.keep_frame(frame), began, time)
            return
        except ProtocolError as error:
            raise _unreadable(error) from error
        counter = self._counters[key][version]
        request = Request(self._broker, connection, header, message, counter, began, len(frame), time)
        try:
            pending = api.handler(request)
        except Exception as error:
            _failed(request, api, error)
            # The handler had kept it for a worker, and did not get there.
            connection.free_memory()
            return
        if pending is not None:
            self._run(_guarded(request, api, pending), time)
        elif time is not None:
            # The request is answered, or waits for something.
            time.pause()

    def _start_large(
        self, connection: Connection, api: Api, frame: memoryview, began: float, time: LoopTime | None
    ) -> None:
        # Whether a produce gets a response is known when it is decoded.
        connection.is_silent = api.key == ApiKey.PRODUCE
        self._run(self._serve_large(connection, api, frame, began, time), time)

    async def _serve_large(
        self, connection: Connection, api: Api, frame: memoryview, began: float, time: LoopTime | None
    ) -> None:
        nbytes = len(frame)
        with self._broker.collections.put_off():
            try:
                decoded = await self._decode_large(connection, api, frame)
            except ProtocolError as error:
                connection.refuse(_unreadable(error))
                decoded = None
            except Exception as error:
                # No memory for it, or no thread. The client would wait for its response until its time-out.
                text = "closing connection from %s: its %s could not be decoded"
                logger.error(text, connection.peer, api.key.name, exc_info=error)
                connection.end()
                decoded = None
            finally:
                del frame
                if not api.has_records:
                    connection.free_memory()
            try:
                if decoded is None or connection.closed:
                    return
                header, message = decoded
                counter = self._counters[api.key][header.api_version]
                request = Request(self._broker, connection, header, message, counter, began, nbytes, time)
                request.owns_records = api.has_records
                await _guarded(request, api)
            finally:
                if api.has_records:
                    connection.free_memory()
                if decoded is not None and nbytes >= FREED_BY_WORKER:
                    await self._broker.workers.run(release, decoded[1])

    async def _decode_large(
        self, connection: Connection, api: Api, frame: memoryview
    ) -> tuple[RequestHeader, Any] | None:
        """Return the header and the message; None if the client disconnected before its turn."""

        def decode() -> tuple[RequestHeader, Any] | None:
            if connection.closed:
                return None
            header, position = decode_request_header(frame)
            budget = MOST_ENTRIES * ELEMENT_COST + len(frame)
            try:
                return header, decode_within(api.request_type, header.api_version, frame, position, budget)
            except TooManyEntriesError as error:
                raise ProtocolError(f"{api.key.name} has more than {MOST_ENTRIES:,} entries") from error

        return await self._broker.lanes.run(len(frame), decode)

    def may_follow(self, head: memoryview) -> bool:
        """Return whether `head` is of a Produce: its records are appended after those that wait for acknowledgement."""
        return head == _PRODUCE_HEAD

    async def settle(self, timeout: float) -> None:
        """Wait `timeout` seconds at most for handlers that are still running."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=timeout)

    async def end(self) -> None:
        """Cancel the handlers that are still running: they wait for what clients gave them longer time for."""
        if self._tasks:
            logger.warning("%d requests are given up, because the broker stops", len(self._tasks))
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _run(self, work: Coroutine[Any, Any, None], time: LoopTime | None) -> None:
        if time is not None:
            time.pause()
            work = counted(work, time)
        task = self._broker.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _guarded(request: Request, api: Api, pending: Awaitable[None] | None = None) -> None:
    """Serve a request, or await the work that its handler has begun; a failure affects this client only."""
    try:
        if pending is None:
            pending = api.handler(request)
        if pending is not None:
            await pending
    except ClientGoneError:
        logger.debug("a client left before its %s was served", api.key.name)
    except Exception as error:
        _failed(request, api, error)
    finally:
        if request.turn is not None:
            request.turn.close()


def _failed(request: Request, api: Api, error: Exception) -> None:
    """Report the failure in the response if it has an error field; otherwise close the connection."""
    connection = request.connection
    logger.error("serving %s to %s failed", api.key.name, connection.peer, exc_info=error)
    try:
        is_reported = request.fail()
    except Exception:
        # What made the handler fail may make its response fail, too. The connection is closed then.
        logger.exception("the failure could not be reported to the client either")
        is_reported = False
    if not is_reported:
        logger.error("closing connection from %s: serving %s failed", connection.peer, api.key.name)
        connection.end()


def _kafka_name(api: Api) -> str:
    name: str = api.request_type.__name__
    return name.removesuffix("Request")


def _unreadable(error: ProtocolError) -> BadRequestError:
    return BadRequestError(f"Error parsing request: {error}")
