"""Test that our brokers and those of Apache Kafka reach each other over TLS, each with a certificate."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import free_port
from peers.security import certificates
from peers.security.certificates import make_certificates
from tests.broker.member.mixed_cluster import AS_3_9, HEAP, OURS, THEIRS, MixedCluster
from tests.support.broker_cluster import IDS

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]


class KafkaOverTls(ZooKeeperKafka):
    """A broker with a second listener, BROKERS, for TLS between brokers."""

    def prepare(self) -> None:
        super().prepare()
        with self.properties.open("a") as file:
            # The last value of a property counts.
            file.write(f"listeners=PLAINTEXT://{self.bootstrap},BROKERS://127.0.0.1:{free_port()}\n")


class ClusterOverTls(MixedCluster):
    """A mixed cluster whose brokers reach each other by SSL."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        super().__init__(directory, zookeeper, AS_3_9)
        made = make_certificates(directory)
        tls = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
            "inter.broker.listener.name": "BROKERS",
            "listener.name.brokers.ssl.client.auth": "required",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(made.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(made.authority),
        }
        self.theirs = {
            number: KafkaOverTls(
                theirs.version, zookeeper, directory=theirs.directory, config={**theirs.config, **tls}, heap=HEAP
            )
            for number, theirs in self.theirs.items()
        }
        for broker in self.all_ours.values():
            broker.overrides |= tls
            broker.overrides["listeners"] = f"PLAINTEXT://{broker.address},BROKERS://127.0.0.1:{free_port()}"


@pytest.mark.usefixtures("foreign_programs")
def test_controllers_and_followers_of_both_sides(tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    require(certificates.missing())
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, tmp_path / "zookeeper"))
        zookeeper.wait()
        cluster = ClusterOverTls(tmp_path, zookeeper.address)
        for broker in IDS:
            stack.callback(cluster.kill, broker)
        cluster.start()
        cluster.create("theirs", [[THEIRS, OURS, 2]])
        cluster.create("ours", [[OURS, THEIRS, 2]])
        values = [b"%d" % number for number in range(300)]

        def write(part: list[bytes]) -> None:
            writer = cluster.writer()
            for topic in ("theirs", "ours"):
                writer.send(topic, part)
            writer.flush()

        write(values[:100])
        for topic in ("theirs", "ours"):
            cluster.wait_isr(topic, IDS)
        cluster.stop(THEIRS)
        cluster.wait_alive((2, OURS), (2, OURS))
        write(values[100:200])
        cluster.restart(THEIRS)
        cluster.wait_alive()
        cluster.stop(OURS)
        write(values[200:])
        cluster.restart(OURS)
        cluster.wait_alive()
        for topic in ("theirs", "ours"):
            cluster.wait_isr(topic, IDS)
            assert cluster.read(topic) == values
            cluster.wait_equal(topic)
        assert "Traceback" not in cluster.ours.logged()
