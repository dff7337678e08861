"""Test a cluster whose brokers log in to each other by SCRAM, and users that all of them learn of.

The first user is added in ZooKeeper before a broker runs. The brokers have an authorizer: only users that log in may do
anything.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.producer import Producer
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import CONFIGS, KafkaTools
from tests.support.member import zookeeper_process
from tests.support.secured.sasl_broker import PREFIX, SaslBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(600)]

IDS = (1, 2, 3)
BROKER, ANN = "broker", "ann"
PASSWORD = "b-secret"
MECHANISM = "SCRAM-SHA-512"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    f"{PREFIX}.sasl.enabled.mechanisms": f"{MECHANISM},SCRAM-SHA-256",
    f"{PREFIX}.scram-sha-512.sasl.jaas.config": f'{_SCRAM} required username="{BROKER}" password="{PASSWORD}";',
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": f"User:{BROKER};User:{ANN}",
    "zookeeper.session.timeout.ms": "6000",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


class SaslCluster:
    """Three brokers, by their ids."""

    def __init__(self, brokers: dict[int, SaslBroker]) -> None:
        self.brokers = brokers

    def properties(self, user: str = BROKER, password: str = PASSWORD, *ids: int, mechanism: str = MECHANISM) -> Any:
        """Return the properties of a client; of certain brokers if they are named."""
        addresses = [self.brokers[each].sasl_address for each in ids or self.brokers]
        found = self.brokers[1].properties(mechanism, user, password)
        return found | {"bootstrap.servers": ",".join(addresses)}

    def knows(self, count: int) -> bool:
        with Admin(self.properties()) as admin:
            return len(admin.describe_cluster().brokers) == count

    def may_log_in(self, user: str, password: str, broker: int, mechanism: str = MECHANISM) -> bool:
        try:
            with Admin(self.properties(user, password, broker, mechanism=mechanism)) as admin:
                admin.list_topics()
        except AuthenticationError:
            return False
        return True


def add_user(zookeeper: str, user: str, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
    assert main(["server", "add-user", user, "--override", f"zookeeper.connect={zookeeper}"]) == 0


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslCluster]:
    base = tmp_path_factory.mktemp("sasl-cluster")
    with ExitStack() as stack:
        address = stack.enter_context(zookeeper_process(base / "zookeeper"))
        with pytest.MonkeyPatch.context() as patch:
            add_user(address, BROKER, PASSWORD, patch)
        brokers = {}
        for number in IDS:
            settings = {**SETTINGS, "zookeeper.connect": address, "broker.id": str(number)}
            brokers[number] = stack.enter_context(SaslBroker(base / str(number), settings))
        running = SaslCluster(brokers)
        wait_until(lambda: running.knows(len(IDS)), "the brokers know each other", 120)
        yield running


def test_users_are_known_to_all_brokers(
    cluster: SaslCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "admin.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in cluster.properties().items()))
    bootstrap = ["--bootstrap-server", cluster.brokers[1].sasl_address, "--command-config", str(config)]
    added = ["--add-config", "SCRAM-SHA-256=[iterations=8192,password=a, secret]"]
    assert main(["configs", "alter", *bootstrap, "--user", "carol", *added]) == 0
    for broker in IDS:
        wait_until(lambda: cluster.may_log_in("carol", "a, secret", broker, "SCRAM-SHA-256"), "carol may log in")  # noqa: B023
    assert not cluster.may_log_in("carol", "a, secret", 1)
    capsys.readouterr()
    assert main(["configs", "describe", *bootstrap, "--entity-type", "users"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=8192" in lines
    assert any(line.startswith(f"SCRAM credential configs for user-principal '{BROKER}' are ") for line in lines)
    assert main(["configs", "alter", *bootstrap, "--user", "carol", "--delete-config", "SCRAM-SHA-256"]) == 0
    for broker in IDS:
        wait_until(lambda: not cluster.may_log_in("carol", "a, secret", broker, "SCRAM-SHA-256"), "carol is gone")  # noqa: B023
    assert main(["configs", "alter", *bootstrap, "--user", "carol", "--delete-config", "SCRAM-SHA-256"]) == 1
    assert "does not exist" in capsys.readouterr().err


@pytest.mark.peer
def test_kafkas_own_tool(cluster: SaslCluster, tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_4))
    login = f'sasl.jaas.config={_SCRAM} required username="{BROKER}" password="{PASSWORD}";\n'
    config = tmp_path / "admin.properties"
    config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={MECHANISM}\n{login}")
    options = ["--bootstrap-server", cluster.brokers[2].sasl_address, "--command-config", str(config)]
    user = ["--entity-type", "users", "--entity-name", ANN]
    with KafkaTools() as tools:
        (line,) = tools.run(CONFIGS, *options, *user, "--alter", "--add-config", f"{MECHANISM}=[password=ann-secret]")
        assert line == f"Completed updating config for user {ANN}."
        wait_until(lambda: cluster.may_log_in(ANN, "ann-secret", 3), "ann may log in")
        quota = ["--alter", "--add-config", "producer_byte_rate=1000000"]
        tools.run(CONFIGS, *options, *user, *quota)
        lines = tools.run(CONFIGS, *options, *user, "--describe")
        assert f"SCRAM credential configs for user-principal '{ANN}' are {MECHANISM}=iterations=4096" in lines
        assert any("producer_byte_rate=1000000.0" in each for each in lines)
        assert cluster.may_log_in(ANN, "ann-secret", 1), "a quota leaves the credentials as they are"


def test_replication_over_sasl(cluster: SaslCluster) -> None:
    """It is the last test, because a broker is killed."""
    with Admin(cluster.properties()) as admin:
        admin.create_topics([NewTopic("words", 1, 3)])
        wait_until(lambda: "words" in admin.list_topics(), "the topic is known")
        with Producer({**cluster.properties(), "acks": "all"}) as producer:
            for number in range(50):
                producer.send("words", b"%d" % number).result(60)
            leader = admin.describe_topics(["words"])["words"].partitions[0].leader
            cluster.brokers[leader].kill()
            for number in range(50, 100):
                producer.send("words", b"%d" % number).result(120)
    alive = [each for each in IDS if each != leader]
    group = {"group.id": "readers", "auto.offset.reset": "earliest"}
    with Consumer({**cluster.properties(BROKER, PASSWORD, *alive), **group}) as consumer:
        consumer.subscribe(["words"])
        found: list[bytes | None] = []

        def all_are_read() -> bool:
            found.extend(each.value for each in consumer.poll(1.0))
            return len(found) >= 100

        wait_until(all_are_read, "all are read", 120)
    assert found == [b"%d" % number for number in range(100)]
