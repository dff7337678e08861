"""Make GSSAPI's mechanisms for a client's connections, and keep its tickets valid.

With a keytab, the library fetches a new ticket when half of the old one's time is over. A ticket cache is read anew
for each connection, so that what `kinit` or another program writes there is used. As Java's clients do, this one runs
`kinit -R` on it when most of the ticket's time is over, on a thread of its own: where the KDC does not answer,
connections go on with the present ticket. Connections that exist need no ticket.
"""

from __future__ import annotations

import logging
import queue
import random
import shlex
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError
from kafkalog.client.security.kerberos import library
from kafkalog.client.security.kerberos.options import KerberosLogin, KerberosOptions, login_of
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.protocol.wire.gssapi import Gssapi

T = TypeVar("T")
_KINIT_DEADLINE_S = 30.0
_PATIENCE_S = 2.0
"""The time to wait for a renewed ticket while the present one can still be used."""
_SILENT_KDC = "sasl.mechanism=GSSAPI: the KDC has not answered in time; check kdc in krb5.conf"

logger = logging.getLogger(__name__)


def gssapi(config: ClientConfig) -> MechanismFactory:
    """Make what makes GSSAPI's mechanisms; they share the tickets."""
    jaas = config.jaas
    login = login_of(config.kerberos, None if jaas is None else jaas.options)
    return KerberosFactory(login, config.kerberos)


class KerberosFactory:
    """Makes mechanisms for the connections of one client. Several threads may call it.

    Args:
        login: Where the tickets come from.
        options: When to renew those of a cache.
    """

    def __init__(self, login: KerberosLogin, options: KerberosOptions) -> None:
        self._login = login
        self._lock = threading.Lock()
        """Held while tickets are fetched: the library replaces the content of a cache, which others would read."""
        self._own_cache = f"MEMORY:kafkalog-{uuid.uuid4().hex}"
        self._renewal = Renewal(login, options)

    def __call__(self, host: str, deadline: float) -> Gssapi:
        """Fetch the tickets that are needed, and make a mechanism for one authentication with the broker on `host`."""
        return _within(deadline, lambda: self._begin(host, deadline))

    def _begin(self, host: str, deadline: float) -> Gssapi:
        # After the deadline nobody waits for this thread, which would be one more for each attempt of an outage.
        if not self._lock.acquire(timeout=_left(deadline)):
            raise ClientTimeoutError(_SILENT_KDC)
        try:
            credentials = self._credentials(deadline)
            context = library.Context(self._login, host, credentials)
            token = context.begin()
        finally:
            self._lock.release()
        return Gssapi(context, token, credentials.principal, context.service)

    def _credentials(self, deadline: float) -> library.Credentials:
        login = self._login
        if login.uses_cache:
            try:
                credentials = library.from_cache(login)
                if self._renewal.is_due(credentials.lifetime):
                    renewing = self._renewal.begin()
                    renewing.join(min(_PATIENCE_S, _left(deadline) / 2))
                    if not renewing.is_alive():
                        credentials = library.from_cache(login)
                return credentials
            except AuthenticationError:
                if login.keytab is None:
                    raise
        return library.from_keytab(login, self._own_cache)


class Renewal:
    """Decide when the ticket of a cache is to be renewed, and do it by `kinit -R`."""

    def __init__(
        self, login: KerberosLogin, options: KerberosOptions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cache = login.cache
        self._command = options.kinit_command
        self._pause = options.renew_pause
        self._part_left = 1 - min(options.renew_window + options.renew_jitter * random.random(), 1.0)
        self._clock = clock
        self._longest = 0.0
        """The longest time that a ticket of this cache was seen to be valid for, in seconds."""
        self._last_try = float("-inf")
        self._renewing: threading.Thread | None = None

    def is_due(self, lifetime: float) -> bool:
        """Tell whether to renew a ticket that is valid for `lifetime` more seconds."""
        self._longest = max(self._longest, lifetime)
        if self._renewing is not None and self._renewing.is_alive():
            return False
        return lifetime < self._part_left * self._longest and self._clock() - self._last_try >= self._pause

    def begin(self) -> threading.Thread:
        """Begin to renew the ticket, and return the thread that does it.

        It logs a warning where that fails, because the ticket is still valid.
        """
        self._last_try = self._clock()
        self._renewing = threading.Thread(target=self._run, name="kafkalog-kinit", daemon=True)
        self._renewing.start()
        return self._renewing

    def _run(self) -> None:
        where = [] if self._cache is None else ["-c", self._cache]
        command = [*shlex.split(self._command), "-R", *where]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_KINIT_DEADLINE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        else:
            if done.returncode == 0:
                self._longest = 0.0
                return
            said = done.stderr.strip()
        logger.warning(
            "the Kerberos ticket ends soon, and `%s` does not renew it: %s; run kinit, or use a keytab",
            shlex.join(command),
            said,
        )


def _left(deadline: float) -> float:
    """Return the seconds until a time of `time.monotonic`, as `threading` takes them."""
    return min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)


def _within(deadline: float, work: Callable[[], T]) -> T:
    """Return what `work` returns on another thread; the library has no deadlines of its own.

    Raises:
        ClientTimeoutError: It has not returned by `deadline` (`time.monotonic`). The thread ends when the library does.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=run, name="kafkalog-kerberos", daemon=True).start()
    try:
        result, error = outcome.get(timeout=_left(deadline))
    except queue.Empty:
        raise ClientTimeoutError(_SILENT_KDC) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]
