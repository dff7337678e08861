"""The listeners of a broker that speak TLS: their certificates, the users that clients are, and counts.

Files of certificates are read again when they change. New connections use the newest certificates that could be used;
those that are open keep theirs.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from broker.config.definition import ConfigError
from broker.config.listeners import TLS_PROTOCOLS, Endpoint
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import MOST_UNAUTHENTICATED
from broker.config.security.tls import CLIENT_AUTH, JAVA_KEYS
from broker.config.server import BrokerConfig
from broker.net.authentication.counts import AuthenticationCounts
from broker.net.authentication.unauthenticated import UnauthenticatedConnections
from broker.net.connection import Connection
from broker.net.limits.told import Told
from broker.net.session import USER_TYPE, Principal, Session
from broker.net.sockets.event_loop import Clock
from broker.net.tls.transport import HANDSHAKE_SECONDS, LINGER_SECONDS, PART_BYTES, TlsTransport
from broker.net.tls.turns import HandshakeTurns
from broker.net.transport.interface import Transport
from broker.security.tls.certificate import read_certificate
from broker.security.tls.contexts import Contexts, Signature, make_contexts, signature_of
from broker.security.tls.der import DerError
from broker.security.tls.failures import HandshakeError
from broker.security.tls.options import options_of
from broker.security.tls.principal_rules import PrincipalRules

logger = logging.getLogger(__name__)

SOON = timedelta(days=30)
"""The log warns of a certificate that ends within this time."""
TOLD_EVERY = timedelta(days=1)
_LONGEST_S = HANDSHAKE_SECONDS + 2 * LINGER_SECONDS
"""The transport itself ends a handshake before so long."""


class TlsListener:
    """One listener. `refresh` runs on a worker, everything else on the event loop's thread.

    Args:
        endpoint: the listener.
        advertised: the host that clients connect to; empty if it is not configured.
        config: its configuration.
        between_brokers: whether brokers reach each other by it.
        now_ms: the wall clock.

    Attributes:
        contexts: what new connections use.
        counts: its handshakes.

    Raises:
        ConfigError: its keys or its stores cannot be used.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        advertised: str,
        config: ListenerConfig,
        *,
        between_brokers: bool,
        now_ms: Callable[[], int],
    ) -> None:
        self.endpoint = endpoint
        self._advertised = advertised
        self.counts = AuthenticationCounts()
        self._between_brokers = between_brokers
        self._now_ms = now_ms
        self._told_at = datetime.min.replace(tzinfo=UTC)
        self.contexts: Contexts = self.make(config)
        self._refused: Signature | None = None
        """The state of files that cannot be used."""
        self._tell_host()
        self._tell_validity()

    def make(self, config: ListenerConfig) -> Contexts:
        """Make what the listener would use with this configuration.

        Raises:
            ConfigError: its keys or its stores cannot be used.
        """
        return make_contexts(self.endpoint.name, config, self.endpoint.protocol, between_brokers=self._between_brokers)

    def refresh(self, config: ListenerConfig) -> None:
        """Read the files again if they, or their places, have changed; else nothing happens.

        While they cannot be used, those before stay in use.
        """
        signature = signature_of(options_of(config))
        if signature not in (self.contexts.signature, self._refused):
            try:
                self.contexts = self.make(config)
            except ConfigError as error:
                self._refused = signature
                logger.error(
                    "the certificates as they were before stay in use; correct the files, which are read again when "
                    "they change. %s",
                    error,
                )
            else:
                self._refused = None
                self._told_at = datetime.min.replace(tzinfo=UTC)
                self._tell_host()
                certificate = self.contexts.certificate
                logger.info(
                    "listener %s uses renewed certificates: %s, until %s",
                    self.endpoint.name,
                    certificate.subject,
                    f"{certificate.not_after:%Y-%m-%d %H:%M} UTC",
                )
        self._tell_validity()

    def _tell_host(self) -> None:
        """Log a certificate that is for other hosts than clients connect to."""
        certificate = self.contexts.certificate
        if self._advertised and not certificate.is_for(self._advertised):
            logger.warning(
                "the certificate of listener %s, %s, is not for %s, which clients connect to (advertised.listeners), "
                "but for %s: clients that check the host's name refuse it",
                self.endpoint.name,
                certificate.subject,
                self._advertised,
                ", ".join(certificate.hosts) or "no host (it has no subjectAltName)",
            )

    def _tell_validity(self) -> None:
        """Log a certificate that does not count now, or not for long, once a day."""
        now = datetime.fromtimestamp(self._now_ms() / 1000, UTC)
        if now - self._told_at < TOLD_EVERY:
            return
        certificate = self.contexts.certificate
        what = ""
        if now > certificate.not_after:
            what = f"has expired on {certificate.not_after:%Y-%m-%d}: clients refuse it"
        elif now < certificate.not_before:
            what = f"does not count before {certificate.not_before:%Y-%m-%d %H:%M} UTC: clients refuse it"
        elif now > certificate.not_after - SOON:
            what = f"expires on {certificate.not_after:%Y-%m-%d %H:%M} UTC: renew it"
        if what:
            self._told_at = now
            logger.warning("the certificate of listener %s, %s, %s", self.endpoint.name, certificate.subject, what)


class TlsListeners:
    """All listeners with TLS.

    Args:
        config: the configuration of the broker's file.
        clock: the event loop.
        seconds: the clock that measures how long work takes.
        now_ms: the wall clock.

    Raises:
        ConfigError: a listener's keys or stores cannot be used.
    """

    def __init__(
        self, config: BrokerConfig, clock: Clock, seconds: Callable[[], float], now_ms: Callable[[], int]
    ) -> None:
        between = config.inter_broker_listener if config.is_member else ""
        self._clock = clock
        self._turns = HandshakeTurns(clock, seconds)
        self._scratch = memoryview(bytearray(PART_BYTES))
        self._told = Told(clock, logger)
        self._unfinished = UnauthenticatedConnections(
            clock, lambda: _LONGEST_S, lambda: int(config[MOST_UNAUTHENTICATED]), self._told
        )
        self._shaking: dict[Session, Connection | None] = {}
        """The sessions whose handshakes are not done, with their connections."""
        self.by_name = {
            endpoint.name: TlsListener(
                endpoint,
                _host_of(config.advertised[endpoint.name]),
                config.of_listener(endpoint.name),
                between_brokers=endpoint.name == between,
                now_ms=now_ms,
            )
            for endpoint in config.listeners
            if endpoint.protocol in TLS_PROTOCOLS
        }
        _warn_of_keys(config)

    def secure(self, transport: Transport, session: Session) -> Transport:
        """Return the transport to serve a new connection by: one that speaks TLS, if its listener does."""
        listener = self.by_name.get(session.endpoint.name)
        if listener is None:
            return transport
        contexts = listener.contexts
        self._shaking[session] = None

        def established(tls: ssl.SSLObject) -> None:
            # Otherwise the client has to log in.
            if not session.endpoint.uses_sasl:
                session.principal = _principal(tls, contexts.rules) or session.principal
                listener.counts.succeeded(True, 0.0, ends=False)
            self._is_done(session)

        def refused(why: str) -> None:
            listener.counts.failed(is_first=True)
            self._told.warn(
                session.peer, why, "closing connection from %s on %s: %s", session.peer, session.endpoint.name, why
            )

        return TlsTransport(transport, contexts.server, self._clock, self._turns, self._scratch, established, refused)

    def guard(self, connection: Connection) -> None:
        """See `Encryption`."""
        if connection.session in self._shaking:
            self._shaking[connection.session] = connection
            self._unfinished.add(connection)

    def closed(self, connection: Connection) -> None:
        """See `Encryption`."""
        self._is_done(connection.session)

    def _is_done(self, session: Session) -> None:
        connection = self._shaking.pop(session, None)
        if connection is not None:
            self._unfinished.remove(connection)

    def close(self) -> None:
        """End timers, because the broker stops."""
        self._unfinished.close()

    def client_context(self, name: str) -> ssl.SSLContext:
        """Return what links to a listener of other brokers use now."""
        context = self.by_name[name].contexts.client
        assert context is not None
        return context

    def refresh(self, config: BrokerConfig) -> None:
        """Read files again that have changed, or that the configuration did not name before. Call it on a worker."""
        for name, listener in self.by_name.items():
            listener.refresh(config.of_listener(name))

    def ends(self) -> dict[str, float]:
        """Return when the certificates of listeners end, in seconds since the epoch. Any thread may call this."""
        return {name: each.contexts.certificate.not_after.timestamp() for name, each in self.by_name.items()}

    def check(self, config: BrokerConfig) -> None:
        """Check that the stores of a configuration can be used. Call it on a worker.

        Raises:
            ConfigError: they cannot.
        """
        for name, listener in self.by_name.items():
            listener.make(config.of_listener(name))


def _host_of(advertised: Endpoint) -> str:
    """Return the host that clients connect to, if the configuration names it."""
    return "" if advertised.host in ("", "0.0.0.0", "::") else advertised.host


def _principal(tls: ssl.SSLObject, rules: PrincipalRules) -> Principal | None:
    """Return who the owner of the client's certificate is, or None if it has shown none.

    Raises:
        HandshakeError: the owner is nobody here.
    """
    der = tls.getpeercert(binary_form=True)
    if der is None:
        return None
    try:
        name = read_certificate(der).subject
    except DerError as error:
        raise HandshakeError(f"the client's certificate cannot be read: {error}") from None
    user = rules.user_of(name)
    if not user:
        raise HandshakeError(f"no rule of ssl.principal.mapping.rules says who {name[:200]!r} is")
    if user == "*":
        # Access lists would take it for everybody.
        raise HandshakeError("the client's certificate names the user *, which stands for all users")
    return Principal(USER_TYPE, user)


def _warn_of_keys(config: BrokerConfig) -> None:
    """Tell of keys that have no effect, though somebody may rely on them."""
    for key in JAVA_KEYS:
        if key.name in config.explicit:
            logger.warning("%s has no effect: it is for Java, and this broker uses OpenSSL", key.name)
    for endpoint in config.listeners:
        if endpoint.protocol == "SASL_SSL" and config.explicit.get(CLIENT_AUTH, "none") != "none":
            listener = config.of_listener(endpoint.name)
            if listener.own(CLIENT_AUTH) is None:
                logger.warning(
                    "%s=%s does not count for listener %s, whose clients log in by SASL: set %s",
                    CLIENT_AUTH,
                    config.explicit[CLIENT_AUTH],
                    endpoint.name,
                    listener.name_to_set(CLIENT_AUTH),
                )
