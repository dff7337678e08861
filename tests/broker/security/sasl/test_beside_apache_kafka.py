"""Test that our brokers and those of Apache Kafka log in to each other, and have the same users.

They begin with SCRAM. Then ours is restarted and logs in by a token, and one of Apache Kafka by a ticket.
"""

from __future__ import annotations

import io
import time
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
from peers.security.kerberos import REALM, Kdc
from tests.broker.member.mixed_cluster import AS_3_9, HEAP, OURS, THEIRS, MixedCluster
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign
from tests.support.broker_cluster import IDS
from tests.support.secured.ways import no_gssapi
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

USER, PASSWORD = "broker", "of-the-brokers"
MECHANISM = "SCRAM-SHA-256"
KEY = make_key("RS256")
BETWEEN = "sasl.mechanism.inter.broker.protocol"
SERVICE = f"kafka/localhost@{REALM}"
_SECURITY = "org.apache.kafka.common.security"
_LISTENER = "listener.name.brokers"


def settings(keytab: Path, jwks: Path) -> dict[str, str]:
    """Return the settings of all brokers for the listener BROKERS."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        BETWEEN: MECHANISM,
        f"{_LISTENER}.sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER,GSSAPI",
        f"{_LISTENER}.scram-sha-256.sasl.jaas.config": (
            f'{_SECURITY}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
        ),
        "delegation.token.secret.key": "of-all-tokens",
        # So short that brokers log in again several times.
        f"{_LISTENER}.scram-sha-256.connections.max.reauth.ms": "3000",
        f"{_LISTENER}.gssapi.sasl.jaas.config": (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{SERVICE}";'
        ),
        "sasl.kerberos.service.name": "kafka",
        # Kafka wants a subject even where a broker does not log in by a token.
        f"{_LISTENER}.oauthbearer.sasl.jaas.config": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=nobody;"
        ),
        f"{_LISTENER}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{_LISTENER}.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
    }


class KafkaWithSasl(ZooKeeperKafka):
    """A broker with a second listener, BROKERS, for logins."""

    logins = ""

    def prepare(self) -> None:
        super().prepare()
        # Java asks for a ticket by the host's name, even if it connects to an address.
        self.logins = f"localhost:{free_port()}"
        with self.properties.open("a") as file:
            # The last value of a property counts.
            file.write(f"listeners=PLAINTEXT://{self.bootstrap},BROKERS://{self.logins}\n")


class ClusterWithSasl(MixedCluster):
    """A mixed cluster whose brokers log in to each other."""

    def __init__(self, directory: Path, zookeeper: str, kdc: Kdc) -> None:
        super().__init__(directory, zookeeper, AS_3_9)
        jwks = directory / "keys.json"
        jwks.write_text(key_set(KEY))
        sasl = settings(kdc.keytab("mixed", SERVICE), jwks)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"
        self.with_sasl = {
            number: KafkaWithSasl(
                theirs.version,
                zookeeper,
                directory=theirs.directory,
                config={**theirs.config, **sasl},
                heap=HEAP,
                jvm=[f"-Djava.security.krb5.conf={kdc.config}", allowed],
            )
            for number, theirs in self.theirs.items()
        }
        self.theirs = dict(self.with_sasl)
        self.our_logins = f"localhost:{free_port()}"
        for broker in self.all_ours.values():
            broker.overrides |= sasl
            broker.overrides["listeners"] = f"PLAINTEXT://{broker.address},BROKERS://{self.our_logins}"

    def change_login(self, broker: int, mechanism: str, **more: str) -> None:
        """Stop a broker, and start it with another login to the others."""
        self.stop(broker)
        if broker == OURS:
            self.ours.overrides |= {BETWEEN: mechanism, **more}
        else:
            with self.with_sasl[broker].properties.open("a") as file:
                file.write(f"{BETWEEN}={mechanism}\n")
        self.restart(broker)

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


def tickets(kdc: Kdc) -> int:
    """Return how often a ticket of a service was asked for."""
    return (kdc.directory / "kdc.log").read_text().count("TGS_REQ")


def accepts(config: dict[str, Any]) -> bool:
    """Return whether a broker accepts a login."""
    try:
        with Admin(config) as admin:
            admin.list_topics()
    except AuthenticationError:
        return False
    return True


def test_controllers_followers_and_users_of_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kdc: Kdc
) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    require(no_gssapi())
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, tmp_path / "zookeeper"))
        zookeeper.wait()
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
        assert main(["server", "add-user", USER, "--override", f"zookeeper.connect={zookeeper.address}"]) == 0
        cluster = ClusterWithSasl(tmp_path, zookeeper.address, kdc)
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
        token = tmp_path / "token"
        now = time.time()
        token.write_text(sign(KEY, "RS256", {"sub": "ours", "iat": now - 60, "exp": now + 3600}))
        endpoint = {f"{_LISTENER}.oauthbearer.sasl.oauthbearer.token.endpoint.url": token.as_uri()}
        cluster.change_login(OURS, "OAUTHBEARER", **endpoint)
        before = tickets(kdc)
        cluster.change_login(2, "GSSAPI")
        cluster.wait_alive()
        cluster.make_user(OURS, "bob", "of-bob")
        write(values[100:])
        for topic in ("theirs", "ours"):
            cluster.wait_isr(topic, IDS)
            assert cluster.read(topic) == values
            cluster.wait_equal(topic)
        assert tickets(kdc) > before, "one broker logs in by a ticket"
        said = cluster.ours.logged()
        assert "Traceback" not in said
        assert f"{MECHANISM}, as user '{USER}'" not in said, "no broker was refused"
        assert "its session is over" not in said, "brokers log in again in time"
