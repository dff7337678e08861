"""Spark's settings `spark.kafka.clusters.<alias>.…`: how to get a delegation token, and for which servers it is.

Names, defaults and rules are those of Spark's `KafkaTokenSparkConf`, `KafkaTokenUtil` and `KafkaConfigUpdater`. A
difference: a query that has a login of its own keeps it, where Spark's connector takes the token all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkalog.java_regex import UnreadableExpressionError, compile_java
from spark_kafkalog.options.parsing import OptionsError

if TYPE_CHECKING:
    # A late import there, so that planners without tokens start faster.
    from kafkalog.client.admin.security.delegation_tokens import DelegationToken

logger = logging.getLogger(__name__)

PREFIX = "spark.kafka.clusters."
KEYTAB, PRINCIPAL = "spark.kerberos.keytab", "spark.kerberos.principal"
_SERVERS = "auth.bootstrap.servers"
_REGEX = "target.bootstrap.servers.regex"
_MECHANISM = "sasl.token.mechanism"
_KAFKA = "kafka."
"""The prefix of further client properties for the login that gets the token."""
_TRUST_STORE = ("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password")
_KEY_STORE = ("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password")
_PROTOCOLS = {"SASL_SSL": _TRUST_STORE, "SSL": _TRUST_STORE + _KEY_STORE, "SASL_PLAINTEXT": ()}
"""The protocols by which brokers make tokens, each with the settings that are used with it."""
_LOGINS = ("sasl.jaas.config", "sasl.username", "sasl.password", "sasl.login.callback.handler.class")
_LOGIN_PREFIXES = ("sasl.oauthbearer.", "sasl.kerberos.keytab", "sasl.kerberos.principal")
_NO_CREDENTIALS = (
    'org.apache.kafka.common.security.scram.ScramLoginModule required username="" password="" tokenauth="true";'
)
_WITHOUT_TOKENS = ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM")
"""Mechanisms that need no credentials among the properties, so that naming one is a login."""


@dataclass(frozen=True)
class TokenCluster:
    """The settings of one cluster.

    `login` has the properties of the client that gets the token, in the order of their names; passwords may be among
    them. Pickling leaves it out, because executors log in by the token: it is empty there.
    """

    alias: str
    login: tuple[tuple[str, str], ...] = field(repr=False)
    security_protocol: str
    token_mechanism: str

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"login": ()}

    def with_token(self, properties: Mapping[str, str], token: DelegationToken | None) -> dict[str, str]:
        """Return a query's client properties with the login by a token; with no credentials where `token` is None."""
        jaas = _NO_CREDENTIALS if token is None else token.jaas
        found = {"security.protocol": self.security_protocol, **properties, "sasl.jaas.config": jaas}
        found.pop("sasl.mechanisms", None)
        return found | {"sasl.mechanism": self.token_mechanism}


def cluster_for(properties: Mapping[str, str], settings: Mapping[str, str]) -> TokenCluster | None:
    """Return the cluster whose token a query takes; None where it has a login of its own, or needs none.

    Args:
        properties: The query's client properties.
        settings: Those of the Spark application.

    Raises:
        OptionsError: A setting is wrong, or the query's servers are those of several clusters.
    """
    if not any(name.startswith(PREFIX) for name in settings) or has_login(properties):
        return None
    protocol = properties.get("security.protocol", "").strip().upper()
    if protocol in ("PLAINTEXT", "SSL"):
        return None
    servers = [each.strip() for each in properties.get("bootstrap.servers", "").split(",")]
    aliases = sorted({alias_of(name) for name in settings if name.startswith(PREFIX)} - {""})
    found = [alias for alias in aliases if _matches(alias, settings, servers) and _is_used(alias, settings)]
    if len(found) > 1:
        raise OptionsError(
            f"More than one delegation token matches the following bootstrap servers: {', '.join(servers)}. Set "
            f"{' and '.join(f'{PREFIX}{alias}.{_REGEX}' for alias in found)} so that one of them matches"
        )
    if not found:
        return None
    return _cluster(found[0], settings, protocol)


def alias_of(name: str) -> str:
    """Return the alias in the name of a setting that begins with `PREFIX`."""
    return name[len(PREFIX) :].partition(".")[0]


def has_login(properties: Mapping[str, str]) -> bool:
    """Return whether client properties say how to log in."""
    mechanism = (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "").strip().upper()
    return mechanism in _WITHOUT_TOKENS or any(
        name in _LOGINS or name.startswith(_LOGIN_PREFIXES) for name in properties
    )


def _is_used(alias: str, settings: Mapping[str, str]) -> bool:
    """Return whether the settings of a cluster are complete, and its protocol has logins.

    Raises:
        OptionsError: There is no such protocol.
    """
    if not settings.get(f"{PREFIX}{alias}.{_SERVERS}", "").strip():
        logger.warning("%s%s.%s is missing, so that the settings of %s have no effect", PREFIX, alias, _SERVERS, alias)
        return False
    protocol = _protocol(alias, settings)
    if protocol not in _PROTOCOLS and protocol != "PLAINTEXT":
        raise OptionsError(
            f"{PREFIX}{alias}.security.protocol={protocol} is unknown; expected {', '.join(_PROTOCOLS)} or PLAINTEXT"
        )
    return protocol in _PROTOCOLS


def _protocol(alias: str, settings: Mapping[str, str]) -> str:
    return settings.get(f"{PREFIX}{alias}.security.protocol", "SASL_SSL").strip().upper()


def _matches(alias: str, settings: Mapping[str, str], servers: list[str]) -> bool:
    name = f"{PREFIX}{alias}.{_REGEX}"
    pattern = settings.get(name, ".*")
    try:
        matches = compile_java(pattern).fullmatch
    except UnreadableExpressionError as error:
        raise OptionsError(
            f"{name}={pattern} is no regular expression of Java that can be read here: {error}"
        ) from None
    return any(matches(server) for server in servers)


def _cluster(alias: str, settings: Mapping[str, str], wanted_protocol: str) -> TokenCluster | None:
    prefix = f"{PREFIX}{alias}."
    protocol = _protocol(alias, settings)
    if protocol == "SSL" and not wanted_protocol:
        logger.warning(
            "%ssecurity.protocol=SSL gets a token by TLS, but nobody logs in by a token there: set "
            "kafka.security.protocol=SASL_SSL (or SASL_PLAINTEXT) for the query to use it",
            prefix,
        )
        return None
    mechanism = settings.get(f"{prefix}{_MECHANISM}", "SCRAM-SHA-512").strip().upper()
    if not mechanism.startswith("SCRAM-"):
        raise OptionsError(f"{prefix}{_MECHANISM}={mechanism}: Delegation token works only with SCRAM mechanism.")
    login = {"bootstrap.servers": settings[f"{prefix}{_SERVERS}"], "security.protocol": protocol}
    for name in _PROTOCOLS[protocol]:
        if f"{prefix}{name}" in settings:
            login[name] = settings[f"{prefix}{name}"]
    service = settings.get(f"{prefix}sasl.kerberos.service.name", "kafka")
    if protocol != "SSL":
        login |= {"sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": service}
    given = {name[len(prefix + _KAFKA) :]: text for name, text in settings.items() if name.startswith(prefix + _KAFKA)}
    if protocol != "SSL" and not has_login(given):
        login |= _kerberos(settings, service)
    return TokenCluster(alias, tuple(sorted((login | given).items())), protocol, mechanism)


def _kerberos(settings: Mapping[str, str], service: str) -> dict[str, str]:
    """Return the login by the application's keytab; without one, the ticket cache is used."""
    keytab, principal = settings.get(KEYTAB), settings.get(PRINCIPAL)
    module = "com.sun.security.auth.module.Krb5LoginModule required"
    if keytab is None or principal is None:
        return {"sasl.jaas.config": f'{module} useTicketCache=true serviceName="{_quoted(service)}";'}
    return {
        "sasl.jaas.config": f'{module} useKeyTab=true serviceName="{_quoted(service)}" keyTab="{_quoted(keytab)}" '
        f'principal="{_quoted(principal)}";'
    }


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
