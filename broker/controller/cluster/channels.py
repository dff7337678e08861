"""The controller's connections to the brokers (Kafka: `ControllerChannelManager`).

Each broker has a queue, and one request to it is in flight. A request is sent until it is answered: brokers carry out
the newest decision, and rely on the order. When a broker goes, its queue goes with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from broker.controller.cluster.model.requests import ControlRequest
from broker.metadata.model import BrokerRegistration
from broker.net.links.link import Link
from broker.net.links.link_errors import LinkError, LinkRefusedError
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.primitives import EncodeError

logger = logging.getLogger(__name__)

PURPOSE = "controller"
RETRY_S = 0.1
"""The pause before a request is sent again."""
PROBE_S = 0.2
"""The interval at which an idle channel without a connection tries to make one."""
CONNECTED_S = 1.0
"""The interval at which an idle channel with a connection looks whether it still has it. The end of a connection is
told at once, unless it ended because a response did not come in time."""
REQUEST_TIMEOUT_S = 30.0
"""`controller.socket.timeout.ms`."""
REFUSALS = 2
"""A broker's process is taken for dead when its address has refused this number of connections in a row."""
REFUSED_S = 0.02
"""The pause after a refusal. It is short, because the partitions of a dead broker have no leader meanwhile."""
LOGGED_EVERY = 100
"""The number of failures of a request of which one is logged, beginning with the first."""

Connect = Callable[[BrokerRegistration, str], Link]
"""Makes a link to the inter-broker listener of a broker; the text names the purpose."""
Answered = Callable[[BrokerRegistration, ControlRequest, Any], None]
"""Called with the response to a request."""
Dead = Callable[[BrokerRegistration], None]
"""Called when nothing listens at a broker's address, `REFUSALS` times in a row and each time after that."""


class Channel:
    """The queue of one broker, and the task that empties it."""

    def __init__(
        self, broker: BrokerRegistration, connect: Connect, answered: Answered, dead: Dead, timeout_s: float
    ) -> None:
        self.broker = broker
        self._connect = connect
        self._answered = answered
        self._dead = dead
        self._timeout_s = timeout_s
        self._queue: deque[ControlRequest] = deque()
        self._woken = asyncio.Event()
        self._link: Link | None = None
        self._former: list[Link] = []
        self._refusals = 0
        """The number of connections in a row that the broker's address has refused."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def waiting(self) -> int:
        """The number of requests that have no answer yet."""
        return len(self._queue)

    def put(self, request: ControlRequest) -> None:
        """Queue a request."""
        self._queue.append(request)
        self._woken.set()

    def move(self, broker: BrokerRegistration) -> None:
        """Go on at another address of the same broker."""
        if broker.endpoints != self.broker.endpoints:
            if self._link is not None:
                self._former.append(self._link)
            self._link = None
            self._refusals = 0
        self.broker = broker

    def _linked(self) -> Link:
        """Return the link; LinkError says that there can be none."""
        if self._link is None:
            self._link = self._connect(self.broker, PURPOSE)
            self._link.on_lost = self._woken.set
        return self._link

    async def close(self) -> None:
        """Give up what is queued, and close the connection."""
        self._queue.clear()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for link in (*self._former, *([] if self._link is None else [self._link])):
            await link.close()

    async def _run(self) -> None:
        failures = 0
        while True:
            while not self._queue:
                self._woken.clear()
                await self._idle()
            while self._former:
                await self._former.pop().close()
            request = self._queue[0]
            try:
                response = await self._linked().request(
                    request.message,
                    timeout=self._timeout_s,
                    min_version=request.version,
                    max_version=request.version,
                )
            except (LinkError, UnsupportedVersionError) as error:
                if failures % LOGGED_EVERY == 0:
                    logger.warning("%s to broker %d: %s", _name(request), self.broker.broker_id, error)
                failures += 1
                self._tried(error)
                await asyncio.sleep(REFUSED_S if self._refusals else RETRY_S)
                continue
            except EncodeError:
                logger.exception("%s to broker %d cannot be sent", _name(request), self.broker.broker_id)
                self._queue.popleft()
                continue
            failures = 0
            self._tried(None)
            self._queue.popleft()
            try:
                self._answered(self.broker, request, response)
            except Exception:
                # The requests that follow must reach the broker all the same.
                number = self.broker.broker_id
                logger.exception("the answer of broker %d to %s could not be processed", number, _name(request))

    async def _idle(self) -> None:
        """Wait for something to send. Now and then, and when the connection ends, look whether the process lives."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until_next_look(self._link, self._refusals)):
                await self._woken.wait()
        if self._queue:
            return
        try:
            link = self._linked()
            if not link.connected:
                await link.connect(timeout=self._timeout_s)
        except LinkError as error:
            self._tried(error)
        else:
            self._tried(None)

    def _tried(self, error: Exception | None) -> None:
        """Take note of how an attempt to reach the broker ended: only refusals in a row say that it is dead."""
        if not isinstance(error, LinkRefusedError):
            self._refusals = 0
            return
        self._refusals += 1
        if self._refusals >= REFUSALS:
            self._dead(self.broker)


def until_next_look(link: Link | None, refusals: int) -> float:
    """Return the seconds until an unused link is looked at again, if nothing happens to it.

    Args:
        refusals: The number of connections in a row that its address has refused.
    """
    if refusals:
        return REFUSED_S
    return CONNECTED_S if link is not None and link.connected else PROBE_S


class Channels:
    """The queues of all brokers.

    Args:
        connect: Makes the links.
        answered: Called with each response.
        dead: Called when a broker's process is taken for dead.
        timeout_s: How long to wait for an answer before a request is sent again.
    """

    def __init__(self, connect: Connect, answered: Answered, dead: Dead, timeout_s: float = REQUEST_TIMEOUT_S) -> None:
        self._connect = connect
        self._answered = answered
        self._dead = dead
        self._timeout_s = timeout_s
        self._channels: dict[int, Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> dict[int, int]:
        """The number of requests by broker that have no answer yet."""
        return {broker_id: channel.waiting for broker_id, channel in self._channels.items()}

    def open(self, brokers: Iterable[BrokerRegistration]) -> None:
        """Begin to send to brokers; what was queued for a former registration of one is dropped."""
        for broker in brokers:
            present = self._channels.get(broker.broker_id)
            if present is not None and present.broker.epoch == broker.epoch:
                present.move(broker)
                continue
            self.drop([broker.broker_id])
            self._channels[broker.broker_id] = Channel(
                broker, self._connect, self._answered, self._dead, self._timeout_s
            )

    def send(self, requests: Iterable[ControlRequest]) -> None:
        """Queue requests; those to brokers that are not connected are dropped."""
        for request in requests:
            channel = self._channels.get(request.broker_id)
            if channel is not None:
                channel.put(request)

    def drop(self, broker_ids: Sequence[int]) -> None:
        """Give up brokers that are gone."""
        for broker_id in broker_ids:
            channel = self._channels.pop(broker_id, None)
            if channel is not None:
                task = asyncio.get_running_loop().create_task(channel.close())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Give all brokers up."""
        self.drop(list(self._channels))
        await asyncio.gather(*self._closing, return_exceptions=True)


def _name(request: ControlRequest) -> str:
    return ApiKey(request.message.api_key).name
