"""Commands and the consumer connector at a ZooKeeper with TLS, a login and access lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.zookeeper.steps import AccessDeniedError, ConnectionLossError
from tests.support.command import call, run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.member import SETTINGS, MemberCluster
from tests.support.secured.secured_zookeeper import NAME, PASSWORD, Secured, login, secured_zookeeper
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("processes")

Write = Callable[[Mapping[str, str]], str]


class SecuredCluster(NamedTuple):
    """A secured ZooKeeper, and a cluster of one broker that logs in to it."""

    zookeeper: Secured
    cluster: MemberCluster

    def connector(self, group: str, **more: str) -> dict[str, str]:
        """Return the properties of a connector over TLS that logs in."""
        return {
            "zookeeper.connect": self.zookeeper.secure,
            "group.id": group,
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": "200",
            **self.zookeeper.tls(),
            **login(),
            **more,
        }


@pytest.fixture(scope="module")
def secured(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    directory = tmp_path_factory.mktemp("secured")
    with secured_zookeeper(directory) as zookeeper:
        settings = {**SETTINGS, **zookeeper.tls(), **login(), "zookeeper.set.acl": "true"}
        settings["zookeeper.connect"] = zookeeper.secure
        nodes = KazooClient(zookeeper.plain)
        with KafkalogBroker(directory / "broker", settings) as broker:
            nodes.start(60)
            try:
                cluster = MemberCluster(zookeeper.plain, broker, nodes)
                wait_until(cluster.is_known, "the broker knows that it lives")
                yield SecuredCluster(zookeeper, cluster)
            finally:
                nodes.stop()
                nodes.close()


@pytest.fixture
def file(tmp_path: Path) -> Write:
    """Return what writes properties to a file and returns its name."""

    def write(properties: Mapping[str, str]) -> str:
        path = tmp_path / "zookeeper.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(path)

    return write


def test_commands_find_the_brokers_over_tls(secured: SecuredCluster, file: Write) -> None:
    topic = secured.cluster.new_topic(1)
    secured.cluster.write(topic, 1, 0, 3)
    where = ["--zookeeper", secured.zookeeper.secure, "--zk-tls-config-file", file(secured.zookeeper.tls())]
    assert topic in call("topics", "list", *where).out
    done = run("consume", *where, "--topic", topic, "--from-beginning", "--max-messages", "3", "--group", "tls")
    assert done.stdout.split() == [b"0", b"1", b"2"]
    assert secured.cluster.offsets("tls", topic) == {0: 3}
    assert "tls" in call("groups", "list", *where).out
    assert call("offsets", "export", *where, "--group", "tls").out == [f"/consumers/tls/offsets/{topic}/0:3"]
    migrated = call("offsets", "migrate", *where, "--group", "tls", "--to", "kafka", "--execute").out
    assert "moved to kafka" in migrated[1]


def test_nodes_of_a_connector_with_access_lists_are_its_users_alone(secured: SecuredCluster, file: Write) -> None:
    topic = secured.cluster.new_topic(1)
    secured.cluster.write(topic, 1, 0, 3)
    with ConsumerConnector(secured.connector("acl", **{"zookeeper.set.acl": "true"})) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        assert next(stream).value == b"0"
    entries, _ = secured.cluster.nodes.get_acls(f"/consumers/acl/offsets/{topic}/0")
    owners = {(each.id.scheme, each.id.id) for each in entries if each.perms == 31}
    assert owners == {("sasl", NAME), ("x509", "CN=server")}
    plain = ["--zookeeper", secured.zookeeper.plain]
    told = call("groups", "delete", *plain, "--group", "acl", check=1)
    assert "ZooKeeper denies access. Its access list names others: log in as one of them (kafkalog.zoo" in told.err
    assert len(told.err.splitlines()) == 1
    reset = ["groups", "reset-offsets", *plain, "--group", "acl", "--topic", topic, "--to-latest", "--execute"]
    assert f"/consumers/acl/offsets/{topic}/0: ZooKeeper denies access" in call(*reset, check=1).err
    assert secured.cluster.offsets("acl", topic) == {0: 1}
    secret = ["--zk-tls-config-file", file(login())]
    call(*reset, *secret)
    assert secured.cluster.offsets("acl", topic) == {0: 3}
    call("groups", "delete", *plain, *secret, "--group", "acl")
    assert "acl" not in secured.cluster.names("/consumers")


def test_a_connector_says_why_there_is_no_session(secured: SecuredCluster) -> None:
    with pytest.raises(AccessDeniedError, match=f"refuses the login of the user {NAME}: the password is wrong"):
        ConsumerConnector(secured.connector("refused", **login("wrong")))
    stranger = {"zookeeper.ssl.truststore.location": str(secured.zookeeper.files.stranger)}
    with pytest.raises(ConnectionLossError, match="its certificate is not trusted: "):
        ConsumerConnector(secured.connector("stranger", **stranger))


def told_by(words: list[str]) -> str:
    """Return the one line in which a command tells why it failed."""
    ended = call(*words, check=1)
    (line,) = (line for line in ended.err.splitlines() if line.startswith("kafkalog: "))
    assert PASSWORD not in line
    return line


def consume(where: str, file: str) -> list[str]:
    patience = ["--consumer-property", "zookeeper.connection.timeout.ms=1500"]
    return ["consume", "--zookeeper", where, "--topic", "t", "--zk-tls-config-file", file, *patience]


def test_the_wrong_kind_of_port_is_told(secured: SecuredCluster, file: Write) -> None:
    zookeeper = secured.zookeeper
    told = told_by(consume(zookeeper.plain, file(zookeeper.tls())))
    assert f"no ZooKeeper answers at {zookeeper.plain} (zookeeper.connect): it does not speak TLS there." in told
    told = told_by(consume(zookeeper.secure, file({})))
    assert "If the port is ZooKeeper's secureClientPort, set zookeeper.ssl.client.enable" in told


def test_a_certificate_that_is_not_trusted_is_told(secured: SecuredCluster, file: Write) -> None:
    stranger = {"zookeeper.ssl.truststore.location": str(secured.zookeeper.files.stranger)}
    where = ["--zookeeper", secured.zookeeper.secure, "--zk-tls-config-file"]
    told = told_by(["topics", "list", *where, file({**secured.zookeeper.tls(), **stranger})])
    assert "its certificate is not trusted: " in told
    assert "have its authority in zookeeper.ssl.truststore.location" in told


def test_a_missing_certificate_is_told(secured: SecuredCluster, file: Write) -> None:
    properties = {key: value for key, value in secured.zookeeper.tls().items() if "keystore" not in key}
    told = told_by(consume(secured.zookeeper.secure, file(properties)))
    assert "It may want another certificate of its clients (zookeeper.ssl.keystore.location)" in told


def test_a_login_that_is_refused_is_told(secured: SecuredCluster, file: Write) -> None:
    words = ["groups", "list", "--zookeeper", secured.zookeeper.plain, "--zk-tls-config-file", file(login("wrong"))]
    told = told_by(words)
    assert f"ZooKeeper at {secured.zookeeper.plain} refuses the login of the user {NAME}: the password is wrong" in told


def test_the_file_needs_zookeeper_and_must_be_there() -> None:
    words = ["topics", "list", "--bootstrap-server", "127.0.0.1:1", "--zk-tls-config-file", "/nowhere"]
    assert "--zk-tls-config-file needs --zookeeper" in call(*words, check=2).err
    words = ["topics", "list", "--zookeeper", "127.0.0.1:1", "--zk-tls-config-file", "/nowhere"]
    assert "/nowhere" in call(*words, check=2).err
