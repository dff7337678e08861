"""The handshakes of a connection: negotiation of versions, SASL, and SASL again before the session ends (KIP-368).

A broker may limit how long an authenticated session lasts. When most of that time has passed, the client authenticates
again on the same connection. The broker answers the requests in flight first.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.network.diagnosis import Diagnosis
from kafkalog.client.network.transport import Transport
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.protocol.codec import Chunk
from kafkalog.protocol.wire.core import Answer, Wire
from kafkalog.protocol.wire.errors import AuthenticationFailedError, ConnectionEndedError, NegotiationFailedError

logger = logging.getLogger(__name__)

_LEAST_SESSION_S = 1.05
"""The shortest interval between two authentications of a connection: brokers want a second (KIP-368)."""
_PUT_OFF_S = 5.0
"""The delay of an authentication for which there are no credentials at present."""
_NEVER = float("inf")


class Authentication:
    """Authenticates one connection, and knows when its session ends. After any error the connection has to be closed.

    Args:
        host: The broker's host.
        config: The client's configuration.
        transport: Carries the steps of the handshakes.
        wire: Makes the steps.
        make_mechanism: Makes the SASL mechanism of each further authentication; None without SASL.
        keep: Takes responses to requests that were in flight when the connection was authenticated again.
    """

    def __init__(
        self,
        host: str,
        config: ClientConfig,
        transport: Transport,
        wire: Wire,
        make_mechanism: MechanismFactory | None,
        keep: Callable[[Answer], None],
    ) -> None:
        self._host = host
        self._config = config
        self._transport = transport
        self._wire = wire
        self._make_mechanism = make_mechanism
        self._keep = keep
        self._has_answered = False
        """True if the peer has answered anything, so that both sides speak the same protocol."""
        # In seconds of `time.monotonic`.
        self._authenticated_at = self._session_ends = self._reauthenticate_at = _NEVER

    @property
    def due(self) -> bool:
        """Return whether the session is about to end."""
        return time.monotonic() >= self._reauthenticate_at

    def begin(self, diagnosis: Diagnosis, deadline: float) -> None:
        """Send ApiVersions, and authenticate by SASL if that is configured.

        Raises:
            AuthenticationError: The broker refuses the client, or the client the broker.
            ConnectionFailedError, ClientTimeoutError: The connection ended, or the broker did not answer.
            InvalidResponseError: The peer does not speak Kafka's protocol.
        """
        try:
            self._shake_hands(self._wire.begin(), deadline)
        except ConnectionFailedError as error:
            reason = diagnosis.handshake(error, self._has_answered)
            if reason is not None:
                raise AuthenticationError(reason) from error
            raise

    def renew(self, deadline: float) -> None:
        """Authenticate again. Put this off while the server of the credentials cannot be reached and the session lasts.

        Raises:
            AuthenticationError: The broker refuses the credentials, or there are none.
            ConnectionFailedError, ClientTimeoutError: The connection ended, or the broker did not answer; or the
                session has ended, and the server of the credentials cannot be reached.
        """
        assert self._make_mechanism is not None
        try:
            mechanism = self._make_mechanism(self._host, min(deadline, time.monotonic() + self._config.connect_timeout))
        except (ConnectionFailedError, ClientTimeoutError) as error:
            now = time.monotonic()
            if now >= self._session_ends:
                raise
            self._reauthenticate_at = min(now + _PUT_OFF_S, self._session_ends)
            logger.warning("%s: the session ends soon and cannot be renewed: %s", self._transport.address, error)
            return
        # Brokers refuse to authenticate a connection again within a second.
        pause = self._authenticated_at + _LEAST_SESSION_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
            deadline += pause
        self._shake_hands(self._wire.reauthenticate(mechanism), deadline)

    def _shake_hands(self, chunks: list[Chunk], deadline: float) -> None:
        """Do the steps of a handshake that begins with `chunks`, until the connection is ready."""
        while chunks:
            self._transport.write(chunks, deadline)
            while isinstance(event := self._transport.read(deadline), Answer):
                self._keep(event)
            self._has_answered = True
            try:
                chunks = self._wire.proceed()
            except NegotiationFailedError as error:
                raise error.reported from None
            except AuthenticationFailedError as error:
                raise AuthenticationError(str(error)) from error
            except ConnectionEndedError as error:
                raise ConnectionFailedError(str(error)) from None
        self._note_lifetime(self._wire.session_lifetime_ms / 1000)

    def _note_lifetime(self, lifetime: float) -> None:
        """Note how many seconds the session lasts from now on; 0 is for ever."""
        self._authenticated_at = time.monotonic()
        if lifetime > 0:
            # As Java's SaslClientAuthenticator. Many clients that connected at once do not come back at once.
            self._session_ends = self._authenticated_at + lifetime
            self._reauthenticate_at = self._authenticated_at + lifetime * random.uniform(0.85, 0.95)
        else:
            self._session_ends = self._reauthenticate_at = _NEVER
