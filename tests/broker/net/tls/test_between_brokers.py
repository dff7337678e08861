"""Test brokers that reach each other over TLS."""

from __future__ import annotations

import asyncio
import random
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.config.cluster import MORE_BETWEEN
from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.net.links.link import Link, LinkSettings
from broker.net.links.link_errors import LinkAuthenticationError, LinkBrokenError, LinkRefusedError
from broker.net.sockets.network import LoopNetwork
from broker.net.tls.dialer import TlsDialer
from broker.net.tls.transport import State, TlsTransport
from broker.security.sasl.broker_login import BrokerLogin
from broker.system.workers import ThreadWorkers
from kafkalog.client.producer import Producer
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.wire.sasl import Mechanism, Plain
from peers import require
from peers.process import free_port
from peers.security import certificates
from peers.security.certificates import make_certificates
from peers.toolchains import java
from tests.broker.net.tls.listeners import port_of, serve, sessions
from tests.broker.replica.in_process import InProcess
from tests.crash.cluster.drilled import DrilledCluster
from tests.support.broker_cluster import IDS
from tests.support.secured.authority import authority, client_context


def link_to(port: int, context: ssl.SSLContext, host: str = "127.0.0.1", login: Mechanism | None = None) -> Link:
    loop = asyncio.get_running_loop()
    dialer = TlsDialer(loop, LoopNetwork(loop), lambda: context)
    settings = LinkSettings("test", connect_timeout=20)
    return Link(
        host,
        port,
        settings,
        loop=loop,
        workers=ThreadWorkers(1),
        chance=random.Random(1),
        network=dialer,
        login=None if login is None else BrokerLogin(lambda host, deadline: login, is_slow=False),
    )


def test_a_link_over_tls(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        link = link_to(port_of(broker, "MTLS"), client_context(authority().sign("broker")))
        for _ in range(3):
            found = await link.request(MetadataRequest(topics=[]))
            assert found.brokers[0].port == port_of(broker, "MTLS")
        await link.close()
        # Nothing of a connection is left.
        acceptor = broker.server.acceptor
        assert acceptor is not None
        await broker.until(lambda: not acceptor.count_by_listener()["MTLS"], "it is closed")

    serve(tmp_path, work)


def test_a_link_that_logs_in_over_tls(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        for password, expected in (("of-broker", None), ("guessed", LinkAuthenticationError)):
            link = link_to(port_of(broker, "LOGIN"), client_context(), login=Plain("broker", password))
            if expected is None:
                assert (await link.request(MetadataRequest(topics=[]))).brokers
                assert [str(each.principal) for each in sessions(broker, "LOGIN")] == ["User:broker"]
            else:
                with pytest.raises(expected):
                    await link.request(MetadataRequest(topics=[]))
            await link.close()

    accounts = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_broker="of-broker";'
    more = {
        "listeners": "PLAINTEXT://127.0.0.1:0,LOGIN://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": accounts,
    }
    serve(tmp_path, work, **more)


def test_a_link_to_a_broker_that_cannot_prove_who_it_is(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        for context, host, why in (
            (client_context(), "127.0.0.2", "(?i)ip address mismatch"),
            (ssl.create_default_context(), "127.0.0.1", "(?i)certificate verify failed"),
        ):
            link = link_to(port_of(broker, "SSL"), context, host)
            with pytest.raises(LinkBrokenError, match=why):
                await link.request(MetadataRequest(topics=[]))
            await link.close()
        link = link_to(port_of(broker, "PLAINTEXT"), client_context())
        with pytest.raises(LinkBrokenError):
            await link.request(MetadataRequest(topics=[]))
        await link.close()
        link = link_to(free_port(), client_context())
        with pytest.raises(LinkRefusedError):
            await link.request(MetadataRequest(topics=[]))
        await link.close()

    # Any address of this host.
    serve(tmp_path, work, listeners="PLAINTEXT://127.0.0.1:0,SSL://0.0.0.0:0", **{"advertised.listeners": "SSL://a:1"})


def test_a_link_whose_broker_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(broker: InProcess) -> None:
        acceptor = broker.server.acceptor
        assert acceptor is not None
        link = link_to(port_of(broker, "SSL"), client_context())
        for number in range(6):
            await link.request(MetadataRequest(topics=[]))
            lost = asyncio.Event()
            link.on_lost = lost.set
            for connection in list(acceptor.connections):
                if number % 2:
                    # As if the broker had been killed: TLS does not say that it ends.
                    assert isinstance(connection._transport, TlsTransport)
                    connection._transport._state = State.BROKEN
                connection.close()
            await asyncio.wait_for(lost.wait(), 20)
        await link.close()

    serve(tmp_path, work)
    assert not [each for each in caplog.records if each.name == "asyncio"]


def test_listeners_between_brokers() -> None:
    tls = {"listeners": "PLAINTEXT://:9092,SSL://:9093", "zookeeper.connect": "localhost:2181"}
    assert BrokerConfig({**tls, "security.inter.broker.protocol": "SSL"}).inter_broker_listener == "SSL"
    assert BrokerConfig({**tls, "inter.broker.listener.name": "ssl"}).inter_broker_listener == "SSL"
    with pytest.raises(ConfigError, match=r"Only one of inter\.broker\.listener\.name and security"):
        BrokerConfig({**tls, "inter.broker.listener.name": "SSL", "security.inter.broker.protocol": "SSL"})


def test_listeners_on_which_other_brokers_send_requests() -> None:
    both = {"listeners": "PLAINTEXT://:9092,SSL://:9093", "zookeeper.connect": "localhost:2181"}
    assert BrokerConfig(both).listeners_between == {"PLAINTEXT"}
    assert BrokerConfig({**both, MORE_BETWEEN: "ssl"}).listeners_between == {"PLAINTEXT", "SSL"}
    authorizer = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    assert BrokerConfig({**both, **authorizer}).listeners_between == {"PLAINTEXT", "SSL"}
    with pytest.raises(ConfigError, match="names OTHER, which is not one of the listeners PLAINTEXT, SSL"):
        BrokerConfig({**both, MORE_BETWEEN: "other"})


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(300)
def test_brokers_change_one_by_one_to_tls_between_them(tmp_path: Path) -> None:
    require(java.missing())
    require(certificates.missing())
    made = make_certificates(tmp_path)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.location": str(made.authority),
        "inter.broker.listener.name": "PLAINTEXT",
        MORE_BETWEEN: "BROKERS",
    }
    with ExitStack() as stack:
        cluster = DrilledCluster(tmp_path, stack, settings)
        cluster.start_zookeeper()
        for number in IDS:
            cluster.start(number)
        cluster.wait_alive()
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        with Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:

            def write() -> None:
                for each in [producer.send("t", b"%d" % number, partition=number % 3) for number in range(300)]:
                    each.result(60)

            for number in IDS:
                cluster.stop(number)
                write()
                cluster.brokers[number].overrides["inter.broker.listener.name"] = "BROKERS"
                cluster.brokers[number].overrides[MORE_BETWEEN] = "PLAINTEXT"
                cluster.start(number)
                cluster.wait_alive()
                cluster.wait_whole("t")
                write()
        for partition in range(3):
            assert len(cluster.wait_equal("t", partition)) > 0
        for number in IDS:
            assert "not served here" not in cluster.brokers[number].logged()
            cluster.stop(number)


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(300)
def test_a_cluster_over_tls_survives_the_loss_of_a_broker(tmp_path: Path) -> None:
    require(java.missing())
    require(certificates.missing())
    made = make_certificates(tmp_path)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SSL",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.location": str(made.authority),
        "ssl.client.auth": "required",
    }
    with ExitStack() as stack:
        cluster = DrilledCluster(tmp_path, stack, settings)
        cluster.start_zookeeper()
        for number in IDS:
            cluster.start(number)
        cluster.wait_alive()
        cluster.create("t", [[1, 2, 3]])

        def write(first: int) -> None:
            with Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"}) as producer:
                for each in [producer.send("t", b"%d" % number) for number in range(first, first + 500)]:
                    each.result(60)

        write(0)
        cluster.kill(1)
        cluster.wait_alive((2, 3), (2, 3))
        write(500)
        cluster.start(1)
        cluster.wait_alive()
        cluster.wait_whole("t")
        assert len(cluster.wait_equal("t")) > 0
        for number in IDS:
            assert "Traceback" not in cluster.brokers[number].logged()
            cluster.stop(number)
