"""Run Apache Kafka with TLS, SASL and ACLs: one broker with a listener for every way to authenticate.

| listener | protocol | what it takes |
|--|--|--|
| PLAINTEXT | PLAINTEXT | anyone, as a super user: for what a test sets up |
| SSL | SSL | clients without a certificate, or with one of the authority |
| MTLS | SSL | clients with a certificate of the authority |
| EXPIRED, ELSEWHERE | SSL | as SSL; the broker's own certificate is expired, or that of another host |
| SASL_PLAINTEXT, SASL_SSL | their names | PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER (unsigned tokens), GSSAPI |
| OAUTH | SASL_SSL | OAUTHBEARER with tokens that `tokens.SigningKey` has signed |

Users have `password_of(name)` as password, with PLAIN and SCRAM. The principals of Kerberos with their names are these
users. ALICE is a super user by every mechanism and by the client certificate. Others may do what ACLs allow, which is
nothing at first. Tests share a broker, so they never let BOB write: whoever may write to any topic may be idempotent as
well. CAROL gets such rights. GSSAPI is there where the broker is given a KDC.
"""

from __future__ import annotations

from pathlib import Path

from peers.brokers.kafka import ApacheKafka
from peers.brokers.kafka import missing as kafka_missing
from peers.security import certificates, tokens
from peers.security.certificates import Certificates, make_certificates
from peers.security.kerberos import REALM, Kdc
from peers.security.tokens import SigningKey

ALICE = "alice"
BOB = "bob"
CAROL = "carol"
USERS = (ALICE, BOB, CAROL)
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS = ("PLAIN", *SCRAM)
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER")
SERVICE = f"kafka/127.0.0.1@{REALM}"
"""The brokers' principal of Kerberos."""
LISTENERS = {
    "SSL": "SSL",
    "MTLS": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "OAUTH": "SASL_SSL",
}

_HEAP = ("-Xmx512M", "-Xms256M")
_SECURITY = "org.apache.kafka.common.security"


def password_of(user: str) -> str:
    """Return the password of one of USERS."""
    return f"of-{user}"


def missing(version: str) -> str | None:
    """Return why a secured Apache Kafka `version` cannot run here, or None. The first call fetches it."""
    return certificates.missing() or kafka_missing(version)


class SecuredKafka(ApacheKafka):
    """A broker with LISTENERS, as a context manager; `addresses` has the address of each by its name.

    Args:
        version: The release to run.
        directory: Where all of its files go.
        kdc: A running KDC, for GSSAPI.

    Attributes:
        certificates: Those of the broker and of its clients.
        signing_key: Signs the tokens that the listener OAUTH takes.
        takes_gssapi: Whether there is a KDC.
    """

    def __init__(self, version: str, directory: Path, kdc: Kdc | None = None) -> None:
        self.certificates = make_certificates(_made(directory / "certificates"))
        self.takes_gssapi = kdc is not None
        self.signing_key = SigningKey(_made(directory / "tokens"))
        # Kafka 4 reads no file that this property does not name; 3.9.2 knows the one of URLs only.
        allowed = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}" for kind in ("urls", "files")]
        kerberos: dict[str, str] = {}
        jvm = [f"{option}={self.signing_key.jwks.as_uri()}" for option in allowed]
        if kdc is not None:
            kerberos = _kerberos(kdc.keytab(f"kafka-{version}", SERVICE))
            jvm.append(f"-Djava.security.krb5.conf={kdc.config}")
        super().__init__(
            version,
            directory=directory / "broker",
            config={
                **_authorization(),
                **_tls(self.certificates),
                **_sasl(self.signing_key.jwks),
                **kerberos,
                "group.initial.rebalance.delay.ms": "0",
            },
            heap=_HEAP,
            listeners=LISTENERS,
            format_options=[
                f"--add-scram={mechanism}=[name={user},password={password_of(user)}]"
                for mechanism in SCRAM
                for user in USERS
            ],
            jvm=jvm,
        )


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True)
    return directory


def _authorization() -> dict[str, str]:
    users = ("ANONYMOUS", ALICE, "CN=client")
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{user}" for user in users),
        "delegation.token.secret.key": "of-the-tokens",
    }


def _tls(made: Certificates) -> dict[str, str]:
    config = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
        "ssl.client.auth": "requested",
        "listener.name.mtls.ssl.client.auth": "required",
    }
    for listener, own in (("expired", made.expired), ("elsewhere", made.elsewhere)):
        config[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        config[f"listener.name.{listener}.ssl.keystore.location"] = str(own)
    return config


def _sasl(jwks: Path) -> dict[str, str]:
    accounts = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
    logins = {
        "plain": f"{_SECURITY}.plain.PlainLoginModule required {accounts};",
        "scram-sha-256": f"{_SECURITY}.scram.ScramLoginModule required;",
        "scram-sha-512": f"{_SECURITY}.scram.ScramLoginModule required;",
        # Kafka wants a subject for the broker's own login, too.
        "oauthbearer": f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;",
    }
    config = {
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "connections.max.reauth.ms": "600000",
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": logins["oauthbearer"],
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
            f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "listener.name.oauth.sasl.oauthbearer.expected.issuer": tokens.ISSUER,
        "listener.name.oauth.sasl.oauthbearer.expected.audience": tokens.AUDIENCE,
    }
    for listener in ("sasl_plaintext", "sasl_ssl"):
        for mechanism, login in logins.items():
            config[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = login
    return config


def _kerberos(keytab: Path) -> dict[str, str]:
    # Without isInitiator=false the broker fetches a ticket for itself when it starts, which it never uses.
    login = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false "
        f'keyTab="{keytab}" principal="{SERVICE}";'
    )
    config = {"sasl.enabled.mechanisms": ",".join((*MECHANISMS, "GSSAPI")), "sasl.kerberos.service.name": "kafka"}
    for listener in ("sasl_plaintext", "sasl_ssl"):
        config[f"listener.name.{listener}.gssapi.sasl.jaas.config"] = login
    return config
