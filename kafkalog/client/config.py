"""The client's configuration, under the names of Kafka's client properties."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import (
    INT32_MAX,
    boolean,
    declared,
    integer,
    milliseconds,
    one_of,
    read_options,
    text_of,
)
from kafkalog.client.properties.options import option as _option
from kafkalog.client.properties.providers import resolve
from kafkalog.client.security.jaas import JaasLogin, LoginModule, parse_jaas
from kafkalog.client.security.jaas_options import without_effect
from kafkalog.client.security.kerberos.options import KerberosOptions, login_of
from kafkalog.client.security.oauth.options import OAuthOptions
from kafkalog.client.security.tls_options import TlsOptions
from kafkalog.client.types import READ_COMMITTED, READ_UNCOMMITTED

Address = tuple[str, int]

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
"""The SASL mechanisms that `kafkalog.client.security.mechanisms` can make."""
_SCHEME = re.compile(r"[0-9a-zA-Z\-%._]*://")
"""The prefix of addresses that Java's clients leave out (`Utils.HOST_PORT_PATTERN`), such as `SASL_SSL://`."""
_WITH_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def addresses(text: str) -> tuple[Address, ...]:
    """Parse `host:port,host:port`; an IPv6 address is in brackets. As in Java, `SASL_SSL://host:port` is the same."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        scheme = _SCHEME.match(part)
        host, colon, port = part[scheme.end() if scheme else 0 :].rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"{part!r} is no address; expected host:port, separated by commas")
        found.append((host, int(port)))
    if not found:
        raise ConfigError("expected at least one host:port")
    return tuple(found)


def _isolation(text: str) -> int:
    word = one_of("read_uncommitted", "read_committed")(text)
    return READ_COMMITTED if word == "read_committed" else READ_UNCOMMITTED


@dataclass(frozen=True)
class ClientConfig:
    """Settings of every client. Durations are in seconds here, and in ms where a property's name says so.

    `unknown` keeps the properties that are not declared here, such as those of the producer. Options of
    `sasl.jaas.config` that have no effect are among them, as `sasl.jaas.config:NAME` and without their values.
    """

    bootstrap_servers: tuple[Address, ...] = _option("bootstrap.servers", (), addresses)
    client_id: str = _option("client.id", "kafkalog", str)

    # Timeouts and retries
    connect_timeout: float = _option("socket.connection.setup.timeout.ms", 10.0, milliseconds(1))
    request_timeout: float = _option("request.timeout.ms", 30.0, milliseconds(1))
    default_api_timeout: float = _option("default.api.timeout.ms", 60.0, milliseconds(1))
    retry_backoff: float = _option("retry.backoff.ms", 0.1, milliseconds())
    retry_backoff_max: float = _option("retry.backoff.max.ms", 1.0, milliseconds())
    metadata_max_age: float = _option("metadata.max.age.ms", 300.0, milliseconds())

    # Sockets; -1 leaves the size of a buffer to the operating system, which grows it as needed
    send_buffer_bytes: int = _option("send.buffer.bytes", -1, integer(-1))
    receive_buffer_bytes: int = _option("receive.buffer.bytes", -1, integer(-1))
    receive_message_max_bytes: int = _option("receive.message.max.bytes", 100 << 20, integer(1 << 10))

    # Fetching
    fetch_min_bytes: int = _option("fetch.min.bytes", 1, integer(0))
    fetch_max_bytes: int = _option("fetch.max.bytes", 50 << 20, integer(0))
    fetch_max_wait: float = _option("fetch.max.wait.ms", 0.5, milliseconds())
    max_partition_fetch_bytes: int = _option("max.partition.fetch.bytes", 1 << 20, integer(0))
    isolation_level: int = _option("isolation.level", READ_UNCOMMITTED, _isolation)
    check_crcs: bool = _option("check.crcs", True, boolean)
    max_batch_bytes: int = _option("max.batch.bytes", 512 << 20, integer(1))
    """The most bytes that one record batch may expand to. Apache Kafka's consumer has no such bound."""
    auto_offset_reset: str = _option("auto.offset.reset", "latest", one_of("earliest", "latest", "none"))
    max_poll_records: int = _option("max.poll.records", 500, integer(1))

    # Security
    security_protocol: str = _option(
        "security.protocol", "PLAINTEXT", one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    )
    sasl_mechanism: str = _option("sasl.mechanism", "PLAIN", one_of(*MECHANISMS), "sasl.mechanisms")
    """Default: GSSAPI if the login is Kerberos, otherwise PLAIN."""
    sasl_username: str | None = _option("sasl.username", None, str)
    sasl_password: str | None = _option("sasl.password", None, str, is_secret=True)
    sasl_jaas_config: str | None = _option("sasl.jaas.config", None, str, is_secret=True)
    oauth: OAuthOptions = dataclasses.field(default_factory=OAuthOptions)
    tls: TlsOptions = dataclasses.field(default_factory=TlsOptions)
    kerberos: KerberosOptions = dataclasses.field(default_factory=KerberosOptions)

    unknown: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)

    @classmethod
    def from_dict(cls, properties: Mapping[str, Any]) -> ClientConfig:
        """Make settings from properties. Values that are not strings are read as Java's properties would write them.

        Raises:
            ConfigError: A property cannot have its value, or properties contradict each other.
        """
        values, rest = read_options(cls, resolve(properties))
        tls, rest = read_options(TlsOptions, rest)
        oauth, rest = read_options(OAuthOptions, rest)
        kerberos, rest = read_options(KerberosOptions, rest)
        if values.get("sasl_mechanism") == "AWS_MSK_IAM":
            # Java's clients need this class; here the mechanism's name says all.
            rest.pop("sasl.client.callback.handler.class", None)
        config = cls(
            **values,
            tls=TlsOptions(**tls),
            oauth=OAuthOptions(**oauth),
            kerberos=KerberosOptions(**kerberos),
            unknown={key: text_of(given) for key, given in rest.items()},
        )
        names_mechanism = "sasl_mechanism" in values
        if config.uses_sasl and not names_mechanism and config._means_kerberos(bool(kerberos)):
            config = dataclasses.replace(config, sasl_mechanism="GSSAPI")
        config._check(names_mechanism)
        jaas = config.jaas
        ignored = {} if jaas is None else dict.fromkeys(without_effect(jaas), "")
        return dataclasses.replace(config, unknown={**config.unknown, **ignored})

    def _means_kerberos(self, has_options: bool) -> bool:
        """Return whether the login is one by Kerberos; `has_options`: properties of Kerberos are given."""
        jaas = self.jaas
        return has_options if jaas is None else jaas.module is LoginModule.KRB5

    def _check(self, names_mechanism: bool) -> None:
        if self.uses_ssl:
            self.tls.check()
        jaas = self.jaas
        if jaas is not None:
            jaas.check_mechanism(self.sasl_mechanism)
        if self.uses_sasl and self.sasl_mechanism == "GSSAPI":
            login_of(self.kerberos, None if jaas is None else jaas.options)
        if self.uses_sasl and self.sasl_mechanism in _WITH_PASSWORD and None in self.credentials:
            others = "" if names_mechanism else "; for another mechanism than PLAIN, set sasl.mechanism"
            raise ConfigError(
                f"security.protocol={self.security_protocol} needs sasl.username and sasl.password, or "
                f"sasl.jaas.config{others}"
            )

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_ssl(self) -> bool:
        return self.security_protocol.endswith("SSL")

    @property
    def jaas(self) -> JaasLogin | None:
        """The login that `sasl.jaas.config` describes; None where it is not set or SASL is not used."""
        if self.sasl_jaas_config is None or not self.uses_sasl:
            return None
        return parse_jaas(self.sasl_jaas_config)

    @property
    def credentials(self) -> tuple[str | None, str | None]:
        """User name and password, from their own properties or from `sasl.jaas.config`."""
        jaas = self.jaas
        options = {} if jaas is None else jaas.options
        return self.sasl_username or options.get("username"), self.sasl_password or options.get("password")

    @property
    def max_response_bytes(self) -> int:
        """The longest response to read: `receive.message.max.bytes`, but never less than a fetch may return."""
        return min(max(self.receive_message_max_bytes, self.fetch_max_bytes + (1 << 16)), INT32_MAX)

    def __repr__(self) -> str:
        """Describe the configuration without its secrets, so that it may be logged."""
        servers = ",".join(f"{host}:{port}" for host, port in self.bootstrap_servers)
        return f"ClientConfig({servers}, client_id={self.client_id!r}, {self.security_protocol})"


def property_names() -> tuple[str, ...]:
    """Return the names of the properties that ClientConfig declares."""
    groups = (ClientConfig, TlsOptions, OAuthOptions, KerberosOptions)
    return tuple(name for group in groups for name in declared(group))
