"""The properties of Kerberos, under Java's names and librdkafka's, and the login that they describe.

Java's clients name keytab and ticket cache in `sasl.jaas.config`, by the options of `Krb5LoginModule`. librdkafka has
properties of its own for them. Without either, the ticket cache of the environment is used (KRB5CCNAME).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import decimal, milliseconds, option

DEFAULT_SERVICE = "kafka"
"""The service's name where none is given, as in librdkafka. Java's clients then refuse to start."""
_JAAS = "sasl.jaas.config"


@dataclass(frozen=True)
class KerberosOptions:
    """The properties of Kerberos: whose ticket to use, for which service, and when to renew it."""

    service_name: str | None = option("sasl.kerberos.service.name", None, str)
    principal: str | None = option("sasl.kerberos.principal", None, str)
    keytab: str | None = option("sasl.kerberos.keytab", None, str)
    kinit_command: str = option("sasl.kerberos.kinit.cmd", "kinit", str)
    renew_window: float = option("sasl.kerberos.ticket.renew.window.factor", 0.8, decimal(0, 1))
    renew_jitter: float = option("sasl.kerberos.ticket.renew.jitter", 0.05, decimal(0, 1))
    renew_pause: float = option("sasl.kerberos.min.time.before.relogin", 60.0, milliseconds())


class KerberosLogin(NamedTuple):
    """The source of a client's tickets. With a cache and a keytab, the keytab is used where the cache has none."""

    service: str
    """The first part of the broker's principal."""
    principal: str | None
    """The client's principal; None for the first of the keytab, or that of the cache."""
    keytab: str | None
    """The path of a keytab."""
    uses_cache: bool
    """True if a ticket cache is used."""
    cache: str | None
    """The name of the ticket cache, where it is not that of the environment."""
    keytab_option: str
    """The name of the keytab's option, for messages."""
    principal_option: str
    """The name of the principal's option, for messages."""


def login_of(options: KerberosOptions, jaas: Mapping[str, str] | None) -> KerberosLogin:
    """Return the login that the properties describe, where `jaas` has the options of `Krb5LoginModule`, if given.

    Raises:
        ConfigError: They contradict each other, or name neither keytab nor ticket cache.
    """
    if jaas is None:
        return KerberosLogin(
            service=options.service_name or DEFAULT_SERVICE,
            principal=options.principal,
            keytab=options.keytab,
            uses_cache=options.keytab is None,
            cache=None,
            keytab_option="sasl.kerberos.keytab",
            principal_option="sasl.kerberos.principal",
        )
    keytab = jaas.get("keyTab")
    uses_keytab, uses_cache = (jaas.get(name, "").lower() == "true" for name in ("useKeyTab", "useTicketCache"))
    if not uses_keytab and not uses_cache:
        raise ConfigError(f'{_JAAS}: Krb5LoginModule needs useKeyTab="true" and keyTab, or useTicketCache="true"')
    if uses_keytab and not keytab:
        raise ConfigError(f'{_JAAS}: useKeyTab="true" needs keyTab="/path/of/the.keytab"')
    service = jaas.get("serviceName")
    if service and options.service_name and service != options.service_name:
        # As in Kafka (KerberosLogin.getServiceName).
        raise ConfigError(
            f"{_JAAS} has serviceName={service!r}, and sasl.kerberos.service.name={options.service_name!r}: give one"
        )
    return KerberosLogin(
        service=service or options.service_name or DEFAULT_SERVICE,
        principal=jaas.get("principal"),
        keytab=keytab.removeprefix("FILE:") if keytab and uses_keytab else None,
        uses_cache=uses_cache,
        cache=jaas.get("ticketCache") if uses_cache else None,
        keytab_option=f"keyTab of {_JAAS}",
        principal_option=f"principal of {_JAAS}",
    )
