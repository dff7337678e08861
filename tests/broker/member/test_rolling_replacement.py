"""Test that Apache Kafka's brokers are replaced by ours one by one, on the same directories and ids, and back.

The controller is replaced last, each way. An idempotent producer with a consumer, a member of a group and a
transactional producer work all the time.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from peers import require
from peers.brokers import kafka
from tests.broker.member.replaced_cluster import INTERNAL, ReplacedCluster, replaced_cluster
from tests.broker.member.working_clients import DEADLINE_S, Member, Transactor
from tests.crash.cluster.load import Load, read_all, under_load
from tests.support.broker_cluster import IDS

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(600)]

WORDS, MONEY, GROUP = "words", "money", "readers"
VERSIONS = [
    pytest.param(kafka.KAFKA_3, "3.9", id="3.9.2"),
    pytest.param(kafka.KAFKA_3, "2.8", id="3.9.2-as-2.8", marks=pytest.mark.soak),
    pytest.param(kafka.KAFKA_2, "2.8", id="2.8.2", marks=pytest.mark.soak),
]


@pytest.mark.parametrize(("version", "protocol"), VERSIONS)
def test_brokers_are_replaced_one_by_one_and_back(version: str, protocol: str, tmp_path: Path) -> None:
    require(kafka.missing(version))
    with replaced_cluster(tmp_path, version, protocol) as cluster:
        cluster.create(WORDS, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        cluster.create(MONEY, [[1, 2, 3], [2, 3, 1]])
        files = cluster.files(WORDS)
        with under_load(cluster, WORDS, 3) as load:
            member, transactor = Member(cluster.bootstrap, WORDS, GROUP), Transactor(cluster.bootstrap, MONEY)
            with member, transactor:
                for wanted in (set(IDS), set[int]()):
                    replace_all(cluster, load, member, transactor)
                    assert cluster.ours == wanted
        # Each broker went on with the files that it found.
        assert len(files) == len(IDS) * 3
        assert cluster.files(WORDS) == files
        assert not member.failed + transactor.failed, member.failed + transactor.failed
        # Only 2.8.2 lacks versions that librdkafka sends to the others.
        assert version == kafka.KAFKA_2 or not member.retries["_UNSUPPORTED_FEATURE"]
        for index, values in transactor.committed.items():
            assert list(read_all(cluster, MONEY, index).values()) == values
        goes_on_from(cluster, member.committed)


def replace_all(cluster: ReplacedCluster, load: Load, member: Member, transactor: Transactor) -> None:
    """Replace one broker after the other; go on when all is in sync and all clients have worked with the new one."""
    for number in cluster.places_with_the_controller_last():
        cluster.replace(number)
        cluster.wait_alive()
        for topic in (WORDS, MONEY, *INTERNAL):
            cluster.wait_whole(topic)
        # The new one leads and coordinates, too.
        cluster.elect_preferred()
        load.wait_acknowledged()
        member.wait_done()
        transactor.wait_done()


def goes_on_from(cluster: ReplacedCluster, committed: dict[int, int]) -> None:
    """Check that another member of the group begins at the offsets that were committed last."""
    assert set(committed) == {0, 1, 2}
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP, "log_level": 0})
    with closing(consumer):
        places = [TopicPartition(WORDS, index) for index in committed]
        found = {each.partition: each.offset for each in consumer.committed(places, DEADLINE_S)}
    assert found == committed
