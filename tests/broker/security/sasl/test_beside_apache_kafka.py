"""Test that our brokers and those of Apache Kafka log in to each other, and have the same users.

They begin with SCRAM. Then ours is restarted and logs in by a token, and one of Apache Kafka by a ticket.
"""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest

from kafkalog.cli.main import main
from kafkalog.client.admin import Admin, ScramPassword
from kafkalog.client.errors import AuthenticationError
from kafkalog.protocol.scram import ScramMechanism
from peers import require
from peers.brokers import kafka
from peers.security.kerberos import REALM, Kdc
from tests.broker.member.mixed_cluster import OURS, THEIRS
from tests.broker.member.secured_mix import HOST, LISTENER, SecuredMix, running
from tests.broker.security.sasl.oauth.signing import key_set, make_key, sign
from tests.support.broker_cluster import IDS
from tests.support.secured.ways import no_gssapi
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]

USER, PASSWORD = "broker", "of-the-brokers"
MECHANISM = "SCRAM-SHA-256"
KEY = make_key("RS256")
BETWEEN = "sasl.mechanism.inter.broker.protocol"
SERVICE = f"kafka/{HOST}@{REALM}"
_SECURITY = "org.apache.kafka.common.security"


def settings(keytab: Path, jwks: Path) -> dict[str, str]:
    """Return the settings of all brokers for the listener BROKERS."""
    return {
        BETWEEN: MECHANISM,
        f"{LISTENER}.sasl.enabled.mechanisms": f"{MECHANISM},OAUTHBEARER,GSSAPI",
        f"{LISTENER}.scram-sha-256.sasl.jaas.config": (
            f'{_SECURITY}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
        ),
        "delegation.token.secret.key": "of-all-tokens",
        # So short that brokers log in again several times.
        f"{LISTENER}.scram-sha-256.connections.max.reauth.ms": "3000",
        f"{LISTENER}.gssapi.sasl.jaas.config": (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            f'keyTab="{keytab}" principal="{SERVICE}";'
        ),
        "sasl.kerberos.service.name": "kafka",
        # Kafka wants a subject even where a broker does not log in by a token.
        f"{LISTENER}.oauthbearer.sasl.jaas.config": (
            f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=nobody;"
        ),
        f"{LISTENER}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        f"{LISTENER}.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
    }


class ClusterWithSasl(SecuredMix):
    """A mixed cluster whose brokers log in to each other."""

    def properties(self, broker: int, user: str, password: str, mechanism: str = MECHANISM) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.between(broker),
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
    values = [b"%d" % number for number in range(200)]
    jwks, token = tmp_path / "keys.json", tmp_path / "token"
    jwks.write_text(key_set(KEY))
    now = time.time()
    token.write_text(sign(KEY, "RS256", {"sub": "ours", "iat": now - 60, "exp": now + 3600}))

    def make(zookeeper: str) -> ClusterWithSasl:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{PASSWORD}\n"))
        assert main(["server", "add-user", USER, "--override", f"zookeeper.connect={zookeeper}"]) == 0
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"
        jvm = [f"-Djava.security.krb5.conf={kdc.config}", allowed]
        return ClusterWithSasl(tmp_path, zookeeper, "SASL_PLAINTEXT", settings(kdc.keytab("mixed", SERVICE), jwks), jvm)

    with running(tmp_path, make) as cluster:
        cluster.create_topics()
        cluster.write(values[:100])
        cluster.make_user(THEIRS, "ann", "of-ann")
        cluster.make_token(THEIRS)
        cluster.make_token(OURS)
        cluster.stop(THEIRS)
        cluster.wait_alive((2, OURS), (2, OURS))
        cluster.restart(THEIRS)
        cluster.wait_alive()
        endpoint = {f"{LISTENER}.oauthbearer.sasl.oauthbearer.token.endpoint.url": token.as_uri()}
        cluster.change(OURS, {BETWEEN: "OAUTHBEARER", **endpoint})
        before = tickets(kdc)
        cluster.change(2, {BETWEEN: "GSSAPI"})
        cluster.wait_alive()
        cluster.make_user(OURS, "bob", "of-bob")
        cluster.write(values[100:])
        cluster.check_all_have(values)
        assert tickets(kdc) > before, "one broker logs in by a ticket"
        said = cluster.ours.logged()
        assert "Traceback" not in said
        assert f"{MECHANISM}, as user '{USER}'" not in said, "no broker was refused"
        assert "its session is over" not in said, "brokers log in again in time"
