"""Ways to authenticate with the secured Apache Kafka, as properties of clients."""

from __future__ import annotations

import importlib.util
from typing import Any

from peers import require
from peers.brokers.secured_kafka import ALICE, LISTENERS, PASSWORD_MECHANISMS, SecuredKafka, password_of
from peers.security import kerberos
from peers.security.certificates import PASSWORD
from peers.security.kerberos import Kdc

WAYS = ("SSL", "MTLS", *PASSWORD_MECHANISMS, "OAUTHBEARER", "OAUTHBEARER signed", "GSSAPI")
"""Ways over TLS: without and with a client certificate, and each mechanism of SASL."""
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def no_gssapi() -> str | None:
    """Return why nobody can authenticate by GSSAPI here, or None."""
    if importlib.util.find_spec("gssapi") is None:
        return "missing because the package gssapi is not installed (pip install 'kafkalog[gssapi]')"
    return kerberos.missing()


def listening(secured: SecuredKafka, listener: str, **more: Any) -> dict[str, str]:
    """Return the properties of a client of a listener, whose broker it trusts; `more` has others, with underscores."""
    return {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": LISTENERS[listener],
        "ssl.ca.location": str(secured.certificates.authority),
        **{name.replace("_", "."): str(value) for name, value in more.items()},
    }


def by_password(secured: SecuredKafka, mechanism: str, user: str = ALICE, listener: str = "SASL_SSL") -> dict[str, str]:
    """Return the properties of a client that authenticates by a password."""
    return listening(secured, listener, sasl_mechanism=mechanism, sasl_username=user, sasl_password=password_of(user))


def properties(secured: SecuredKafka, kdc: Kdc | None, way: str, user: str = ALICE) -> dict[str, str]:
    """Return the properties of a client that authenticates in one of WAYS.

    A user is named by the ways of SASL. Those of SSL are super users.
    """
    made = secured.certificates
    match way:
        case "SSL":
            return listening(secured, "SSL")
        case "MTLS":
            own = {"ssl_certificate_location": made.client, "ssl_key_password": PASSWORD}
            return listening(secured, "MTLS", **own)
        case "OAUTHBEARER":
            login = f'{_OAUTH} unsecuredLoginStringClaim_sub="{user}";'
            return listening(secured, "SASL_SSL", sasl_mechanism=way, sasl_jaas_config=login)
        case "OAUTHBEARER signed":
            token = secured.signing_key.token(user)
            return listening(secured, "OAUTH", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=token)
        case "GSSAPI":
            require(no_gssapi())
            assert kdc is not None
            login = (
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true "
                f'keyTab="{kdc.keytab(f"way-{user}", user)}" principal="{user}" serviceName="kafka";'
            )
            return listening(secured, "SASL_SSL", sasl_mechanism=way, sasl_jaas_config=login)
        case _:
            return by_password(secured, way, user)
