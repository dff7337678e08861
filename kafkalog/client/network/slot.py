"""A connection that several threads share: its users take turns."""

from __future__ import annotations

import threading
import time

from kafkalog.client.config import Address, ClientConfig
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.network.connection import Connection
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.client.security.tls import TlsContexts

FIRST_PATIENCE_S = 1.5
"""The time that the first attempt to connect waits to be accepted. Each attempt that times out doubles it, up to
socket.connection.setup.timeout.ms. So a host that drops packets is noticed soon, and another one is tried."""


class Slot:
    """The connection to one address, and the lock that its users take."""

    def __init__(self, address: Address) -> None:
        self.lock = threading.Lock()
        self.connection: Connection | None = None
        self._address = address
        self._patience = FIRST_PATIENCE_S

    def connected(
        self, config: ClientConfig, mechanisms: MechanismFactory | None, tls: TlsContexts, deadline: float
    ) -> Connection:
        """Return the connection, and open it if needed; the caller holds the lock.

        Raises:
            ConnectionFailedError, ClientTimeoutError, AuthenticationError: `Connection` raises them.
        """
        connection = self.connection
        if connection is None or connection.closed or connection.readable():
            # It is readable although nothing was asked: the broker has closed it, as brokers do with idle connections.
            if connection is not None:
                connection.close()
            left = time_left(deadline, f"{self._address[0]}:{self._address[1]}")
            try:
                connection = Connection(
                    *self._address,
                    config,
                    timeout=min(left, config.connect_timeout),
                    patience=self._patience,
                    mechanisms=mechanisms,
                    tls=tls,
                )
            except ClientTimeoutError:
                self._patience = min(2 * self._patience, config.connect_timeout)
                raise
            self.connection = connection
        return connection


def time_left(deadline: float, address: str) -> float:
    """Return the seconds until a deadline.

    Raises:
        ClientTimeoutError: There are none.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise ClientTimeoutError(f"no time was left to ask {address}")
    return left
