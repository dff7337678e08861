"""A ZooKeeper that grants shorter sessions than a broker and a consumer connector ask for: both stop in time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kafkalog.client import Producer
from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.errors import ClientError
from kafkalog.protocol.errors import KafkaError
from tests.kafkalog.client.connector.reading import Reading
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.member import SETTINGS, MemberCluster, zookeeper_process
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import wait_until

ASKED_MS = 600_000
GRANTED_MS = 3000
TOLD = "ZooKeeper grants sessions of 3 s, not of 600 s (zookeeper.session.timeout.ms)"

pytestmark = pytest.mark.usefixtures("processes")


class Capped(MemberCluster):
    """A cluster whose ZooKeeper grants `GRANTED_MS`; the broker comes to it through a proxy."""

    way: Proxy

    def cut(self, way: Proxy) -> None:
        way.shut = True
        way.hang_up()

    def another_way(self) -> Proxy:
        host, _, port = self.zookeeper.partition(":")
        return Proxy((host, int(port)), seed=1)


@pytest.fixture
def capped(tmp_path: Path) -> Iterator[Capped]:
    with ExitStack() as stack:
        address = stack.enter_context(zookeeper_process(tmp_path / "zookeeper", maxSessionTimeout=str(GRANTED_MS)))
        host, _, port = address.partition(":")
        way = Proxy((host, int(port)), seed=1)
        stack.callback(way.close)
        settings = {
            **SETTINGS,
            "zookeeper.connect": f"127.0.0.1:{way.port}",
            "zookeeper.session.timeout.ms": str(ASKED_MS),
        }
        broker = stack.enter_context(KafkalogBroker(tmp_path / "broker", settings))
        nodes = KazooClient(address)
        nodes.start(60)
        stack.callback(nodes.close)
        stack.callback(nodes.stop)
        cluster = Capped(address, broker, nodes)
        cluster.way = way
        wait_until(cluster.is_known, "the broker knows that it lives")
        yield cluster


def test_both_stop_before_others_may_have_their_roles(capped: Capped, caplog: pytest.LogCaptureFixture) -> None:
    topic = capped.new_topic(2)
    capped.write(topic, 2, 0, 20)
    way = capped.another_way()
    shared = {"group.id": "group", "auto.offset.reset": "smallest", "consumer.timeout.ms": 60_000}
    with (
        caplog.at_level(logging.WARNING),
        ConsumerConnector(
            {
                **shared,
                "zookeeper.connect": f"127.0.0.1:{way.port}",
                "zookeeper.session.timeout.ms": ASKED_MS,
                "zookeeper.connection.timeout.ms": 60_000,
            }
        ) as first,
        ConsumerConnector(
            {
                **shared,
                "zookeeper.connect": capped.zookeeper,
                "rebalance.max.retries": 1000,
                "rebalance.backoff.ms": 200,
            }
        ) as second,
    ):
        (stream,) = first.create_message_streams({topic: 1})[topic]
        got = [int(next(stream).value or b"") for _ in range(5)]
        assert [each for each in caplog.messages if TOLD in each]
        capped.cut(way)
        other = Reading(*second.create_message_streams({topic: 1})[topic])
        wait_until(lambda: len(second.assignment()) == 2, "the other owns all")
        # The first one has records, but no lease.
        assert stream.poll(0.0, 1) == []
        other.wait(20)
        assert len(got) == 5
        way.shut = False
    way.close()

    assert TOLD in capped.broker.logged()
    capped.cut(capped.way)
    wait_until(lambda: capped.names("/brokers/ids") == [], "ZooKeeper has ended the broker's session")
    producer = {"bootstrap.servers": capped.bootstrap, "acks": "1", "max.block.ms": 2000, "delivery.timeout.ms": 2000,
                "request.timeout.ms": 1000, "linger.ms": 0}  # fmt: skip
    with pytest.raises((ClientError, KafkaError)), Producer(producer) as writing:
        writing.send(topic, value=b"lost", partition=0).result(60)
    capped.broker.wait_logged("ZooKeeper has not answered for 3 s, so its session may have expired")
