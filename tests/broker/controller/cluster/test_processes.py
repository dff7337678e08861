"""A cluster of our brokers alone, as processes over ZooKeeper."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import free_port
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import exchange

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("processes")]

IDS = (1, 2, 3)


def described(broker: KafkalogBroker) -> MetadataResponse:
    with broker.connect() as connection:
        response: MetadataResponse = exchange(connection, MetadataRequest(topics=None), 9)
        return response


def test_a_broker_that_is_killed_is_replaced_before_its_session_expires(tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, tmp_path / "zookeeper"))
        zookeeper.wait()
        brokers = {}
        for number in IDS:
            settings = {
                "broker.id": str(number),
                "zookeeper.connect": zookeeper.address,
                # The longest that the server grants by default: nobody waits so long here.
                "zookeeper.session.timeout.ms": "60000",
            }
            brokers[number] = KafkalogBroker(tmp_path / str(number), settings)
            brokers[number].address = f"127.0.0.1:{free_port()}"
            stack.callback(brokers[number].kill)
            brokers[number].start()
        wait_until(
            lambda: all(
                {each.node_id for each in described(broker).brokers} == set(IDS) for broker in brokers.values()
            ),
            "all know each other",
        )
        boss = described(brokers[1]).controller_id
        admin = AdminClient({"bootstrap.servers": brokers[boss].address, "log_level": 0})
        assignment = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
        admin.create_topics([NewTopic("words", 3, replica_assignment=assignment)], operation_timeout=30)[
            "words"
        ].result(60)
        victim = next(number for number in IDS if number != boss)

        def is_in_sync(isr: set[int]) -> bool:
            found = [each for each in described(brokers[boss]).topics if each.name == "words"]
            states = [state for topic in found for state in topic.partitions]
            return len(states) == 3 and all(set(each.isr_nodes) == isr and each.leader_id in isr for each in states)

        wait_until(lambda: is_in_sync(set(IDS)), "all are in sync")
        brokers[victim].kill()
        # Within less than the session.
        wait_until(lambda: is_in_sync(set(IDS) - {victim}), "the others lead", 50)
        brokers[boss].wait_logged(f"broker {victim} is taken for dead")
        brokers[boss].wait_logged(rf"words-{victim - 1}: leader {victim} -> \d, .*nothing listened at PLAINTEXT")
        brokers[victim].start()
        wait_until(lambda: is_in_sync(set(IDS)), "all are in sync again")
