"""Puts what authenticates clients in front of the dispatcher, on the listeners that ask for it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

from broker.api.authentication import UnauthenticatedAnswers
from broker.api.context import Broker
from broker.config.listeners import Endpoint
from broker.config.security.sasl import FAILURE_DELAY, MAX_RECEIVE, MOST_UNAUTHENTICATED, TIMEOUT
from broker.config.server import BrokerConfig
from broker.net.authentication.counts import AuthenticationCounts
from broker.net.authentication.sasl_gate import SaslGate, SaslListener
from broker.net.authentication.unauthenticated import UnauthenticatedConnections
from broker.net.connection import Connection, Dispatcher
from broker.net.framing import BASE_CAPACITY, FrameLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.told import Told
from broker.runtime import Runtime
from broker.security.sasl.authenticator import Offer
from broker.security.sasl.mechanisms.interface import Identity
from broker.security.sasl.mechanisms.scram import Find, FindToken, UnknownUsers
from broker.security.sasl.oauth.fetching import RemoteKeys
from broker.security.sasl.offers import Sources, make_offer
from kafkalog.protocol.scram import ScramCredential, ScramMechanism

logger = logging.getLogger(__name__)

_SECRET_BYTES = 32


class Gates:
    """The gates of a broker's listeners. They are made before it serves, so that errors are found at its start.

    Args:
        config: the configuration of the broker's file.

    Raises:
        ConfigError: a listener cannot authenticate clients as it is configured.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._broker: Broker | None = None
        self._keys: list[RemoteKeys] = []
        unknown = UnknownUsers(secrets.token_bytes(_SECRET_BYTES), self._sample)
        sources = Sources(self._find, self._find_tokens, unknown, self._keys.append)
        self._offers: dict[str, Offer] = {
            endpoint.name: make_offer(endpoint, config.of_listener(endpoint.name), sources)
            for endpoint in config.listeners
            if endpoint.uses_sasl
        }
        self._listeners: dict[str, SaslListener] = {}
        self.unauthenticated: UnauthenticatedConnections | None = None

    async def prepare(self, runtime: Runtime) -> None:
        """Fetch what mechanisms need, before listeners are opened.

        Raises:
            ConfigError: it cannot be fetched.
        """
        for keys in self._keys:
            await keys.start(runtime.loop, runtime.workers)

    def open(self, broker: Broker, dispatcher: Dispatcher, memory: RequestMemory) -> None:
        """Make the gates usable.

        Args:
            broker: the parts of the broker.
            dispatcher: serves the requests of authenticated clients.
            memory: the memory for their requests.
        """
        self._broker = broker
        if not self._offers:
            return
        loop, config = broker.loop, self._config
        told = Told(loop, logger)
        self.unauthenticated = UnauthenticatedConnections(
            loop, lambda: config[TIMEOUT] / 1000, lambda: int(config[MOST_UNAUTHENTICATED]), told
        )
        for name, offer in self._offers.items():
            most = config.of_listener(name)[MAX_RECEIVE]
            self._listeners[name] = SaslListener(
                offer=offer,
                before=FrameLimits(most, MAX_RECEIVE, growth=2 * BASE_CAPACITY),
                after=FrameLimits(config["socket.request.max.bytes"]),
                memory=memory,
                failure_delay=lambda: config[FAILURE_DELAY] / 1000,
                served=dispatcher,
                answers=self._answers,
                workers=broker.workers,
                clock=loop,
                now_ms=broker.now_ms,
                unauthenticated=self.unauthenticated,
                told=told,
            )
        self._tell_missing_users(broker)

    def gate(self, endpoint: Endpoint) -> SaslGate | None:
        """Make the gate of a new connection; None if its listener asks for no authentication by SASL."""
        listener = self._listeners.get(endpoint.name)
        return None if listener is None else SaslGate(listener)

    def closed(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if self.unauthenticated is not None:
            self.unauthenticated.remove(connection)

    async def close(self) -> None:
        """End timers and what is fetched, because the broker stops."""
        if self.unauthenticated is not None:
            self.unauthenticated.close()
        for keys in self._keys:
            await keys.stop()

    @property
    def counts(self) -> Mapping[str, AuthenticationCounts]:
        """Counts of authentications by the listener's name."""
        return {name: listener.counts for name, listener in self._listeners.items()}

    def _find(self, mechanism: ScramMechanism) -> Find:
        def find(user: str) -> ScramCredential | None:
            return None if self._broker is None else self._broker.scram_users.find(mechanism, user)

        return find

    def _find_tokens(self, mechanism: ScramMechanism) -> FindToken:
        def find(token_id: str) -> tuple[ScramCredential, Identity] | None:
            tokens = None if self._broker is None else self._broker.tokens
            found = None if tokens is None else tokens.find(mechanism, token_id)
            if found is None:
                return None
            credential, token = found
            return credential, Identity(token.owner_name, token.expires_ms, is_of_token=True)

        return find

    def _sample(self, mechanism: ScramMechanism) -> ScramCredential | None:
        return None if self._broker is None else self._broker.scram_users.sample(mechanism)

    def _answers(self, connection: Connection) -> UnauthenticatedAnswers:
        assert self._broker is not None
        member = self._broker.member
        return UnauthenticatedAnswers(connection.session, frozenset() if member is None else member.listeners)

    def _tell_missing_users(self, broker: Broker) -> None:
        """Warn of listeners that nobody can log in to at present: all of their mechanisms need SCRAM's users."""
        users = broker.metadata.image.scram_credentials
        for name, offer in self._offers.items():
            mechanisms = {ScramMechanism.of_name(each) for each in offer.mechanisms}
            if None not in mechanisms and not any(mechanisms & each.keys() for each in users.values()):
                logger.warning(
                    "nobody can log in to the listener %s: no user has credentials for %s. Make one by another "
                    "listener, with kafkalog configs alter --entity-type users, or while the broker is down, with "
                    "kafkalog server add-user",
                    name,
                    ", ".join(offer.mechanisms),
                )
