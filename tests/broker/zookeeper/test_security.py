"""Brokers with TLS, a login and access lists, at the real server as `kafkalog zookeeper start` runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from broker.metadata.znodes import paths
from tests.support.command import run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.secured.secured_zookeeper import NAME, PASSWORD, Secured, login, secured_zookeeper
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def secured(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_zookeeper(tmp_path_factory.mktemp("secured")) as running:
        yield running


@pytest.fixture
def anyone(secured: Secured) -> Iterator[KazooClient]:
    """Return a client of the same server that does not log in."""
    client = KazooClient(secured.plain)
    client.start()
    yield client
    client.stop()
    client.close()


def over_tls(secured: Secured) -> dict[str, str]:
    return {**secured.tls(), "zookeeper.connect": f"{secured.secure}/kafka"}


def refusal(**settings: str) -> str:
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    listener = "listeners=PLAINTEXT://127.0.0.1:0"
    told = run("server", "start", "--override", listener, *overrides, check=1).stderr.decode()
    assert PASSWORD not in told
    return told


@pytest.mark.parametrize("way", ["tls", "digest", "both"])
def test_a_broker_that_is_secured_registers_and_owns_its_nodes(
    secured: Secured, anyone: KazooClient, tmp_path: Path, way: str
) -> None:
    settings = {"broker.id": "5", "zookeeper.set.acl": "true"}
    settings |= secured.tls() if way != "digest" else {}
    settings |= login() if way != "tls" else {}
    settings |= {"zookeeper.connect": f"{secured.plain if way == 'digest' else secured.secure}/{way}"}
    with KafkalogBroker(tmp_path, settings) as broker:
        entries, _ = anyone.get_acls(f"/{way}{paths.broker_id(5)}")
        owners = {(each.id.scheme, each.id.id) for each in entries if each.perms == 31}
        wanted = {"tls": {("x509", "CN=server")}, "digest": {("sasl", NAME)}}
        assert owners == wanted.get(way, wanted["tls"] | wanted["digest"])
        assert [each.perms for each in entries if each.id.scheme == "world"] == [1], "everybody may read"
        wait_until(lambda: anyone.exists(f"/{way}{paths.CONTROLLER}") is not None, "the broker is the controller")
        with pytest.raises(NoAuthError):
            anyone.get_children(f"/{way}/config/users")
        with pytest.raises(NoAuthError):
            anyone.set(f"/{way}{paths.CONTROLLER_EPOCH}", b"99")
        anyone.create(f"/{way}{paths.CONSUMERS}/of-old")
        assert broker.stop() == 0


def test_a_wrong_password_is_told(secured: Secured, tmp_path: Path) -> None:
    told = refusal(**{"zookeeper.connect": secured.plain, "log.dirs": str(tmp_path), **login("wrong")})
    assert f"ZooKeeper at {secured.plain} refuses the login of the user {NAME}: the password is wrong, or" in told


def test_a_certificate_that_is_not_trusted_is_told(secured: Secured, tmp_path: Path) -> None:
    stranger = {"zookeeper.ssl.truststore.location": str(secured.files.stranger)}
    told = refusal(**{**over_tls(secured), **stranger, "log.dirs": str(tmp_path)})
    assert "its certificate is not trusted: " in told
    assert "have its authority in zookeeper.ssl.truststore.location" in told


def test_a_broker_without_a_certificate_is_told(secured: Secured, tmp_path: Path) -> None:
    settings = {key: value for key, value in over_tls(secured).items() if "keystore" not in key}
    told = refusal(**settings, **{"log.dirs": str(tmp_path), "zookeeper.connection.timeout.ms": "3000"})
    assert "It may want another certificate of its clients (zookeeper.ssl.keystore.location)" in told


def test_the_wrong_kind_of_port_is_told(secured: Secured, tmp_path: Path) -> None:
    short = {"log.dirs": str(tmp_path), "zookeeper.connection.timeout.ms": "1500"}
    told = refusal(**{**short, "zookeeper.connect": secured.secure})
    assert (
        "it accepts connections and ends them. If the port is ZooKeeper's secureClientPort, set zookeeper.ssl" in told
    )
    told = refusal(**{**secured.tls(), **short, "zookeeper.connect": secured.plain})
    assert "it does not speak TLS there. Name its secureClientPort in zookeeper.connect" in told
