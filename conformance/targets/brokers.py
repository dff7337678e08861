"""Start a new broker, or a new cluster of ours, for each suite."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.model import Suite, Target
from conformance.targets.cluster import Cluster, Keeper
from peers.brokers import kafka
from peers.cache import MissingPeerError
from peers.process import free_port
from tests.support.kafkalog_broker import RETENTION_LATER, KafkalogBroker

QUICK = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
"""Settings that shorten tests without changing any answer."""

ALONE = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    **RETENTION_LATER,
}
"""Settings that a lone broker of Apache Kafka needs. The rest of its `server.properties` repeats defaults and is left
out: tests of a setting's source would otherwise find another source than with our broker."""


@contextmanager
def broker(kind: str, directory: Path, suite: Suite) -> Iterator[Target]:
    """Run what a suite judges for the time of the block.

    Args:
        kind: `kafkalog`, `kafkalog:N` for a cluster of N brokers, or `apache:VERSION`.
        directory: for the brokers' files.

    Raises:
        MissingPeerError: It cannot run here.
    """
    name, _, version = kind.partition(":")
    settings = dict(suite.broker_settings)
    if name == "kafkalog" and version:
        cluster = Cluster(directory, int(version), {**QUICK, **settings, **suite.cluster_settings}, suite.advertised)
        with cluster.running(), Keeper(cluster) as keeper:
            yield Target(kind, cluster.bootstrap, keeper.environment)
        return
    if suite.advertised:
        settings["advertised.listeners"] = f"PLAINTEXT://{suite.advertised[0]}"
    if name == "kafkalog":
        ours = KafkalogBroker(directory, {**QUICK, **settings})
        # The advertised address may be another: a suite may advertise a proxy.
        ours.address = bootstrap = f"127.0.0.1:{free_port()}"
        with ours:
            yield Target(kind, bootstrap)
        return
    if reason := kafka.missing(version):
        raise MissingPeerError(reason)
    with kafka.ApacheKafka(version, directory=directory, config={**QUICK, **settings}, defaults=ALONE) as theirs:
        yield Target(kind, theirs.bootstrap)
