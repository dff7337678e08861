"""Test that our brokers and those of Apache Kafka log in to each other by SCRAM, and have the same users."""

from __future__ import annotations

import io
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from kafkalog.client.admin import Admin, ScramPassword
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.scram import ScramMechanism
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import free_port
from tests.broker.member.mixed_cluster import AS_3_9, HEAP, OURS, THEIRS, MixedCluster
from tests.support.broker_cluster import IDS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

USER, PASSWORD = "broker", "of-the-brokers"
MECHANISM = "SCRAM-SHA-256"
SASL = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
    "sasl.mechanism.inter.broker.protocol": MECHANISM,
    "listener.name.brokers.sasl.enabled.mechanisms": MECHANISM,
    "listener.name.brokers.scram-sha-256.sasl.jaas.config": (
        f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    ),
    "delegation.token.secret.key": "of-all-tokens",
    # So short that brokers log in again several times.
    "listener.name.brokers.scram-sha-256.connections.max.reauth.ms": "3000",
}


class KafkaWithSasl(ZooKeeperKafka):
    """A broker with a second listener, BROKERS, for logins."""

    logins = ""

    def prepare(self) -> None:
        super().prepare()
        self.logins = f"127.0.0.1:{free_port()}"
        with self.properties.open("a") as file:
            # The last value of a property counts.
            file.write(f"listeners=PLAINTEXT://{self.bootstrap},BROKERS://{self.logins}\n")


class ClusterWithSasl(MixedCluster):
    """A mixed cluster whose brokers log in to each other."""

    def __init__(self, directory: Path, zookeeper: str) -> None:
        super().__init__(directory, zookeeper, AS_3_9)
        self.with_sasl = {
            number: KafkaWithSasl(
                theirs.version, zookeeper, directory=theirs.directory, config={**theirs.config, **SASL}, heap=HEAP
            )
            for number, theirs in self.theirs.items()
        }
        self.theirs = dict(self.with_sasl)
        self.our_logins = f"127.0.0.1:{free_port()}"
        for broker in self.all_ours.values():
            broker.overrides |= SASL
            broker.overrides["listeners"] = f"PLAINTEXT://{broker.address},BROKERS://{self.our_logins}"

    def properties(self, broker: int, user: str, password: str, mechanism: str = MECHANISM) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.our_logins if broker == OURS else self.with_sasl[broker].logins,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def may_log_in(self, broker: int, user: str, password: str) -> bool:
        return accepts(self.properties(broker, user, password))

    def make_token(self, asked: int) -> None:
        """Make a token at one broker, log in by it at all, and end it."""
        with Admin(self.properties(asked, USER, PASSWORD)) as admin:
            token = admin.delegation_tokens.create()
            for broker in IDS:
                config = self.properties(broker, "", "") | {"sasl.jaas.config": token.jaas}
                del config["sasl.username"], config["sasl.password"]
                wait_until(lambda: accepts(config), f"the token of {asked} is known at {broker}", 60)  # noqa: B023
            admin.delegation_tokens.expire(token.hmac)
            wait_until(lambda: not accepts(config), f"the token of {asked} is ended at {broker}", 60)

    def make_user(self, asked: int, user: str, password: str) -> None:
        with Admin(self.properties(asked, USER, PASSWORD)) as admin:
            admin.scram_users.alter([ScramPassword(user, ScramMechanism.SHA_256, password)])
        for broker in IDS:
            wait_until(lambda: self.may_log_in(broker, user, password), f"{user} may log in at {broker}", 60)  # noqa: B023
            assert not self.may_log_in(broker, user, "guessed")


def accepts(config: dict[str, Any]) -> bool:
    """Return whether a broker accepts a login."""
    try:
        with Admin(config) as admin:
            admin.list_topics()
    except AuthenticationError:
        return False
    return True


@pytest.mark.usefixtures("foreign_programs")
def test_controllers_followers_and_users_of_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, tmp_path / "zookeeper"))
        zookeeper.wait()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
        assert main(["server", "add-user", USER, "--override", f"zookeeper.connect={zookeeper.address}"]) == 0
        cluster = ClusterWithSasl(tmp_path, zookeeper.address)
        for broker in IDS:
            stack.callback(cluster.kill, broker)
        cluster.start()
        cluster.create("theirs", [[THEIRS, OURS, 2]])
        cluster.create("ours", [[OURS, THEIRS, 2]])
        values = [b"%d" % number for number in range(200)]

        def write(part: list[bytes]) -> None:
            writer = cluster.writer()
            for topic in ("theirs", "ours"):
                writer.send(topic, part)
            writer.flush()

        write(values[:100])
        cluster.make_user(THEIRS, "ann", "of-ann")
        cluster.make_token(THEIRS)
        cluster.make_token(OURS)
        cluster.stop(THEIRS)
        cluster.wait_alive((2, OURS), (2, OURS))
        cluster.restart(THEIRS)
        cluster.wait_alive()
        cluster.make_user(OURS, "bob", "of-bob")
        write(values[100:])
        for topic in ("theirs", "ours"):
            cluster.wait_isr(topic, IDS)
            assert cluster.read(topic) == values
            cluster.wait_equal(topic)
        said = cluster.ours.logged()
        assert "Traceback" not in said
        assert f"{MECHANISM}, as user '{USER}'" not in said, "no broker was refused"
        assert "its session is over" not in said, "brokers log in again in time"
