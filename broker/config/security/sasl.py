"""The keys of SASL: which mechanisms listeners have, who may log in by them, and how brokers log in to each other.

Names and defaults are those of Apache Kafka 3.9; names that begin with `kafkalog.` are our own. The JAAS file has the name
of Java's property, by which Kafka's brokers get it.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.config.definition import ConfigError, ConfigKey, Scope, Type, Value, at_least
from broker.config.security.listener_config import MECHANISMS

ENABLED = "sasl.enabled.mechanisms"
JAAS = "sasl.jaas.config"
JAAS_FILE = "java.security.auth.login.config"
BETWEEN_BROKERS = "sasl.mechanism.inter.broker.protocol"
MAX_REAUTH = "connections.max.reauth.ms"
MAX_RECEIVE = "sasl.server.max.receive.size"
FAILURE_DELAY = "connection.failed.authentication.delay.ms"
TIMEOUT = "kafkalog.authentication.timeout.ms"
MOST_UNAUTHENTICATED = "kafkalog.max.unauthenticated.connections"
SERVER_HANDLER = "sasl.server.callback.handler.class"
NAME_RULES = "sasl.kerberos.principal.to.local.rules"
DEFAULT_BUILDER = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
MAX_TIME = 1 << 31


def _no_other_builder(name: str, value: Value) -> None:
    if value not in (None, DEFAULT_BUILDER):
        # A broker that ignored it would take clients for others than they are.
        raise ConfigError(f"{name} names a class of Java's, which cannot run here: remove the key")


def sasl_fault(value: Callable[[str], Value]) -> str | None:
    """Return why keys contradict each other; None if they do not."""
    delay, idle = value(FAILURE_DELAY), value("connections.max.idle.ms")
    if 0 <= idle <= delay:
        return f"{FAILURE_DELAY}={delay} must be less than connections.max.idle.ms={idle}"
    return None


SASL_KEYS = [
    ConfigKey(ENABLED, Type.LIST, ("GSSAPI",), f"The SASL mechanisms of listeners with SASL: {', '.join(MECHANISMS)}.", skips_empty=True, scope=Scope.LISTENER),
    ConfigKey(JAAS, Type.PASSWORD, None, 'The login module of a mechanism, as in Kafka: org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="…" user_broker="…" user_alice="…"; By it this broker also logs in to others; of PLAIN, the options user_NAME are the accounts. It is set for a listener and a mechanism only.', scope=Scope.MECHANISM),
    ConfigKey(JAAS_FILE, Type.STRING, None, "A JAAS file, as Kafka's brokers get it from Java's property of this name. Its section <listener>.KafkaServer, with the listener's name in lower case, or else its section KafkaServer has the login modules of mechanisms without sasl.jaas.config."),
    ConfigKey(BETWEEN_BROKERS, Type.STRING, "GSSAPI", "The SASL mechanism by which brokers log in to each other.", member=True),
    ConfigKey(MAX_REAUTH, Type.LONG, 0, "How long a session lasts before its client has to authenticate again (KIP-368). 0: for ever, or until the client's credential expires.", scope=Scope.MECHANISM),
    ConfigKey(MAX_RECEIVE, Type.INT, 524_288, "The longest request before a client is authenticated.", at_least(1), scope=Scope.LISTENER),
    ConfigKey(FAILURE_DELAY, Type.INT, 100, "How long a broker waits before it answers a failed authentication and closes the connection. Less than connections.max.idle.ms.", at_least(0)),
    ConfigKey(TIMEOUT, Type.LONG, 10_000, "How long a client may take to authenticate by SASL before its connection is closed.", at_least(1)),
    ConfigKey(MOST_UNAUTHENTICATED, Type.INT, 1000, "The most connections to SASL listeners whose clients are not authenticated yet, and the most that are amid a handshake of TLS. Beyond that, the oldest one is closed of the address that has the most.", at_least(1)),
    ConfigKey(NAME_RULES, Type.LIST, ("DEFAULT",), "The users that names of Kerberos stand for. DEFAULT: the first part of a name of the broker's realm. Other rules have the form of Kafka's (RULE:…).", skips_empty=True, scope=Scope.LISTENER),
    ConfigKey("principal.builder.class", Type.CLASS, None, f"Only Kafka's default is accepted: {DEFAULT_BUILDER}.", _no_other_builder, scope=Scope.LISTENER, effect=False),
    ConfigKey("security.providers", Type.STRING, None, "Classes of Java's.", effect=False),
    ConfigKey("sasl.login.class", Type.CLASS, None, "A class of Java's.", scope=Scope.MECHANISM, effect=False),
    ConfigKey("sasl.client.callback.handler.class", Type.CLASS, None, "A class of Java's.", scope=Scope.MECHANISM, effect=False),
    ConfigKey(SERVER_HANDLER, Type.CLASS, None, "The class of Java's that checks what clients send. Only classes of OAUTHBEARER are accepted.", scope=Scope.MECHANISM),
]  # fmt: skip
"""The keys, in the order of the documentation."""
