"""Links from this broker to the others of its cluster, each to the listener on which brokers reach each other."""

from __future__ import annotations

from collections.abc import Callable

from broker.config.security.sasl import BETWEEN_BROKERS
from broker.config.server import BrokerConfig
from broker.metadata.model import BrokerRegistration
from broker.net.links.link import Link, LinkSettings
from broker.net.links.link_errors import LinkError
from broker.net.sockets.network import Dialer
from broker.runtime import Runtime
from broker.security.sasl.broker_login import BrokerLogin, make_login

Connect = Callable[[BrokerRegistration, str], Link]
"""Makes a link to a broker for a purpose, such as `controller`; see `ClusterLinks.connect`."""

LONGEST_RESPONSE = 0x7FFFFFFF
"""Kafka's brokers bound no response of another broker: one batch may be as long as `socket.request.max.bytes` lets it.
"""

FIRST_PAUSE_S = 0.02
"""The pause after a link to a broker breaks. The next attempt to connect may tell that the broker is dead."""


class NoListenerError(LinkError):
    """The broker is registered without the listener on which brokers reach each other."""


class ClusterLinks:
    """Makes links; see the module.

    Args:
        runtime: what a link is made of.
        broker_id: the id of this broker.
        config: the configuration of the broker's file.
        dialer: opens the connections; by default, the network's own, without encryption.
    """

    def __init__(self, runtime: Runtime, broker_id: int, config: BrokerConfig, dialer: Dialer | None = None) -> None:
        self._runtime = runtime
        self._dialer = runtime.network if dialer is None else dialer
        self._broker_id = broker_id
        self._listener = config.inter_broker_listener
        self._login = login_of(config)
        self._timeout = config["replica.socket.timeout.ms"] / 1000

    def connect(self, broker: BrokerRegistration, purpose: str) -> Link:
        """Make a link that connects when there is something to send. The caller closes it.

        Each link has a connection of its own, so that what it is for does not wait for anything else.

        Args:
            broker: the broker to reach, which may be this one.
            purpose: what the link is for, in a word; the peer sees it in the client id.

        Raises:
            NoListenerError: the broker cannot be reached by other brokers.
        """
        endpoint = broker.endpoint(self._listener)
        if endpoint is None:
            raise NoListenerError(
                f"broker {broker.broker_id} is registered without the listener {self._listener} "
                "(inter.broker.listener.name)"
            )
        runtime = self._runtime
        return Link(
            endpoint.host,
            endpoint.port,
            LinkSettings(
                f"broker-{self._broker_id}-{purpose}",
                request_timeout=self._timeout,
                max_response_bytes=LONGEST_RESPONSE,
                backoff=FIRST_PAUSE_S,
            ),
            loop=runtime.loop,
            workers=runtime.workers,
            chance=runtime.random,
            network=self._dialer,
            login=self._login,
        )


def login_of(config: BrokerConfig) -> BrokerLogin | None:
    """Return what makes the login of this broker to others; None if their listener asks for none.

    Raises:
        ConfigError: the listener asks for a login that cannot be made.
    """
    name = config.inter_broker_listener
    endpoint = next((each for each in config.listeners if each.name == name), None)
    if endpoint is None or not endpoint.uses_sasl:
        return None
    return make_login(name, config[BETWEEN_BROKERS], config.of_listener(name))
