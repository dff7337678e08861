"""Properties of Java's clients and of librdkafka that these clients accept without heeding them, and why.

A properties file that works with another client may contain such properties, and they are no mistakes. So the warning
about them differs from that about unknown properties, which are probably misspelt.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from kafkalog.client.security import jaas_options
from kafkalog.java_properties import may_be_shown, told_of_hidden

logger = logging.getLogger(__name__)

_INTERNAL = "it is internal to Java's clients"
_OPENSSL = "OpenSSL does this"
_METRICS = "these clients report no metrics"
_OBJECTS = "it names a class of Java's"
_SERVER = "only brokers check tokens"
_LIBRDKAFKA = "it tunes librdkafka itself"

_REASONS = {
    _OPENSSL: "ssl.provider ssl.secure.random.implementation ssl.keymanager.algorithm ssl.trustmanager.algorithm "
    "security.providers ssl.engine.location ssl.engine.id ssl.providers ssl.curves.list ssl.sigalgs.list",
    _OBJECTS: "ssl.engine.factory.class sasl.login.class sasl.client.callback.handler.class "
    "sasl.oauthbearer.jwt.validator.class key.serializer value.serializer key.deserializer value.deserializer",
    _METRICS: "auto.include.jmx.reporter enable.metrics.push metric.reporters metrics.num.samples "
    "metrics.recording.level metrics.sample.window.ms statistics.interval.ms",
    _SERVER: "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer "
    "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url",
    "every address of a name is tried": "client.dns.lookup",
    "brokers close idle connections, and a new one is made": "connections.max.idle.ms",
    "the time-out of connecting does not grow": "socket.connection.setup.timeout.max.ms",
    "the bootstrap servers are tried where no known broker answers": "metadata.recovery.strategy "
    "metadata.recovery.rebootstrap.trigger.ms",
    "bootstrap.servers is used": "bootstrap.controllers",
    "only producers heed it; other clients pause for retry.backoff.ms": "reconnect.backoff.ms reconnect.backoff.max.ms",
    "batches go to the partitions that accept them": "partitioner.adaptive.partitioning.enable "
    "partitioner.availability.timeout.ms",
    "two-phase commit is not offered": "transaction.two.phase.commit.enable",
    "share groups are not offered": "share.acknowledgement.mode share.acquire.mode",
    _INTERNAL: "internal.auto.downgrade.txn.commit internal.leave.group.on.close "
    "internal.throw.on.fetch.stable.offset.unsupported",
    _LIBRDKAFKA: "log_level log.connection.close log.queue log.thread.name debug api.version.request "
    "api.version.fallback.ms broker.version.fallback broker.address.family broker.address.ttl socket.keepalive.enable "
    "socket.nagle.disable socket.max.fails socket.timeout.ms enable.random.seed enabled_events message.max.bytes "
    "message.copy.max.bytes queued.min.messages queued.max.messages.kbytes queue.buffering.max.messages "
    "queue.buffering.max.kbytes queue.buffering.backpressure.threshold topic.metadata.refresh.interval.ms "
    "topic.metadata.refresh.sparse topic.metadata.propagation.max.ms topic.blacklist plugin.library.paths "
    "internal.termination.signal enable.partition.eof consume.callback.max.messages go.delivery.reports",
}


_LISTED = """
    acks allow auto batch bootstrap buffer check client compression config default delivery enable exclude fetch group
    heartbeat https interceptor isolation key linger max metadata oauth partition partitioner receive reconnect request
    retries retry sasl security send session socket ssl transaction transactional value
"""
_FIRST_WORDS = frozenset(_LISTED.split())
"""First words of properties that have an effect."""


def _by_name() -> Mapping[str, str]:
    found = {name: reason for reason, names in _REASONS.items() for name in names.split()}
    return MappingProxyType({**found, **jaas_options.IGNORED})


IGNORED = _by_name()
"""The reason why each of these properties, and of the options of `sasl.jaas.config`, has no effect."""


def warnings_about(unknown: Iterable[str], kind: str = "the property", prefix: str = "") -> list[str]:
    """Return what to warn of: one line about all properties of other clients, and one about each that nobody knows.

    Names that may be parts of a value, such as a password's, are only counted.

    Args:
        unknown: Names of properties that have no effect, without `prefix`.
        kind: What the user calls a property.
        prefix: What stands before the names where the user writes them, such as `kafka.`.
    """
    names = sorted(unknown)
    others = [name for name in names if name not in IGNORED]
    shown = [name for name in others if _may_be_shown(name)]
    found = [f"{kind} {prefix}{name} is not known and has no effect" for name in shown]
    if len(shown) < len(others):
        found.append(told_of_hidden(len(others) - len(shown)))
    groups: dict[str, list[str]] = {}
    for name in names:
        if name in IGNORED:
            groups.setdefault(IGNORED[name], []).append(f"{prefix}{name}")
    if groups:
        listed = "; ".join(f"{', '.join(group)} ({reason})" for reason, group in groups.items())
        found.insert(0, f"without effect here: {listed}")
    return found


def _may_be_shown(name: str) -> bool:
    return name.startswith(jaas_options.PREFIX) or may_be_shown(name, _words())


@cache
def _words() -> list[str]:
    """Return the words that names begin with, such as `acks` and `linger`; a name of one word may be meant for one."""
    return sorted({re.split("[._]", name)[0] for name in IGNORED} | _FIRST_WORDS)


def warn_about(unknown: Iterable[str]) -> None:
    """Log what `warnings_about` returns; clients that are made from properties do so once each."""
    for text in warnings_about(unknown):
        logger.warning("%s", text)
