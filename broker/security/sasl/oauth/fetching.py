"""Fetches the keys of an authorization server from a URL: at the start, regularly, and when a token names a new one.

Nothing of this happens while a client waits. A token whose key is not known is refused, and has the keys fetched soon,
but not more often than once a minute: clients with invented names of keys must not make the broker call the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from broker.config.definition import ConfigError
from broker.security.sasl.oauth.jwt import Jwt
from broker.security.sasl.oauth.keys import KeySetError, PublicKey, UnknownKeyError, parse_keys, verify
from broker.system.workers import Workers

logger = logging.getLogger(__name__)

URL_KEY = "sasl.oauthbearer.jwks.endpoint.url"
EARLY_S = 60.0
"""The shortest time between two fetches because of unknown keys."""
MAX_BYTES = 1 << 20
_TIMEOUT_S = 10.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Refreshing:
    """Times after which keys are fetched again, in seconds."""

    interval_s: float = 3600.0
    backoff_s: float = 0.1
    """The pause after the first failure; it doubles with each one that follows."""
    backoff_max_s: float = 10.0


class RemoteKeys:
    """The keys at a URL, of the scheme `https`, `http` or `file`. Workers check tokens with them.

    Args:
        url: the URL.
        name: the configuration that it comes from, for messages.
        refreshing: when the keys are fetched again.

    Raises:
        ConfigError: there cannot be keys at the URL.
    """

    def __init__(self, url: str, name: str, refreshing: Refreshing) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("https", "http", "file") or (parts.scheme != "file" and not parts.hostname):
            raise ConfigError(f"{name}: a URL of the scheme https or file is needed")
        if parts.scheme == "file" and not parts.path:
            raise ConfigError(f"{name}: the URL of a file is file:///path")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            logger.warning("%s: without https, whoever is on the way can give the broker keys of his own", name)
        self._url = url
        self._path = Path(url2pathname(parts.path)) if parts.scheme == "file" else None
        self.shown = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        self.name = name
        self._refreshing = refreshing
        self._keys: tuple[PublicKey, ...] = ()
        self._lock = threading.Lock()
        self._wanted: Callable[[], None] = lambda: None
        self._task: asyncio.Task[None] | None = None

    def verify(self, token: Jwt) -> None:
        """Check the signature of a token. Any thread may call this.

        Raises:
            TokenError: it is not that of a known key.
        """
        try:
            verify(token, self._keys)
        except UnknownKeyError:
            self._wanted()
            raise

    def fetch(self) -> None:
        """Fetch the keys; blocks.

        Raises:
            KeySetError: they cannot be fetched, or cannot be used. Those that are known stay.
        """
        with self._lock:
            self._keys = parse_keys(self._read())

    def _read(self) -> bytes:
        try:
            if self._path is not None:
                with self._path.open("rb") as file:
                    data = file.read(MAX_BYTES + 1)
                if len(data) > MAX_BYTES:
                    raise KeySetError(f"it has more than {MAX_BYTES} bytes")
                return data
        except OSError as error:
            raise KeySetError(error.strerror or str(error)) from error
        import ssl

        from kafkalog.client.security.oauth.http import HttpError, request

        tls = ssl.create_default_context() if self._url.startswith("https") else None
        headers = {"Accept": "application/json"}
        try:
            answer = request(
                "GET", self._url, None, headers, tls=tls, connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S
            )
        except HttpError as error:
            raise KeySetError(str(error)) from error
        if answer.status != 200:
            raise KeySetError(f"HTTP {answer.status}")
        return answer.body

    # -- on the event loop

    async def start(self, loop: asyncio.AbstractEventLoop, workers: Workers) -> None:
        """Fetch the keys, and go on to fetch them when they are due.

        Raises:
            ConfigError: they cannot be fetched now.
        """
        try:
            await workers.run(self.fetch)
        except KeySetError as error:
            raise ConfigError(f"{self.name}: the keys at {self.shown} cannot be used: {error}") from error
        unknown = asyncio.Event()

        def wanted() -> None:
            # While the broker stops, the loop may be closed.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(unknown.set)

        self._wanted = wanted
        self._task = loop.create_task(self._refresh(loop, workers, unknown))

    async def stop(self) -> None:
        """Fetch no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _refresh(self, loop: asyncio.AbstractEventLoop, workers: Workers, unknown: asyncio.Event) -> None:
        refreshing, failures, fetched = self._refreshing, 0, loop.time()
        while True:
            pause = refreshing.interval_s
            if failures:
                # Beyond this a power of two is too large for a float.
                doubled = refreshing.backoff_s * 2 ** min(failures - 1, 30)
                pause = min(doubled, refreshing.backoff_max_s, refreshing.interval_s)
                await asyncio.sleep(pause)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await unknown.wait()
                        await asyncio.sleep(max(0.0, fetched + EARLY_S - loop.time()))
            unknown.clear()
            fetched = loop.time()
            try:
                await workers.run(self.fetch)
                failures = 0
            except KeySetError as error:
                failures += 1
                if failures == 1:
                    text = "%s: the keys at %s cannot be fetched, and the known ones stay in force: %s"
                    logger.error(text, self.name, self.shown, error)
            except Exception:
                # Without the next fetch, all tokens would be refused once the server has other keys.
                failures += 1
                if failures == 1:
                    text = "%s: the keys at %s cannot be fetched, and the known ones stay in force"
                    logger.exception(text, self.name, self.shown)
