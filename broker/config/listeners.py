"""The `listeners` family of keys: comma-separated `NAME://host:port`.

A listener has a name, which `listener.security.protocol.map` maps to a security protocol. A name that is not mapped
must itself be a security protocol. An empty host binds every interface. Port 0 binds a free port, which is then
advertised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from broker.config.definition import ConfigError, shown

KNOWN_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
KNOWN_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_HOST = re.compile(r"[0-9a-zA-Z\-%._:]+")
_COUNT = re.compile(r"\d{1,10}", re.ASCII)
_MOST_CONNECTIONS = (1 << 31) - 1
_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+)://(?:\[(?P<six>[^\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>-?[0-9]{1,9})"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address that a listener binds or advertises. An empty `host` means every interface."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"

    @property
    def uses_sasl(self) -> bool:
        """Return whether clients authenticate by SASL."""
        return self.protocol.startswith("SASL_")

    def with_port(self, port: int) -> Endpoint:
        return replace(self, port=port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_listeners(key: str, text: tuple[str, ...], protocol_map: dict[str, str]) -> list[Endpoint]:
    """Parse a `listeners` value into endpoints.

    Raises:
        ConfigError: an entry is not `NAME://host:port`, a name or a non-zero port is used twice, or the security
            protocol is unknown.
    """
    endpoints: list[Endpoint] = []
    for entry in text:
        match = _LISTENER.fullmatch(entry)
        if match is None:
            raise ConfigError(f"Invalid value {shown(entry)} for configuration {key}: expected NAME://host:port")
        name = match["name"].upper()
        port = int(match["port"])
        if not 0 <= port <= 65535:
            raise ConfigError(f"Invalid value {shown(entry)} for configuration {key}: port must be between 0 and 65535")
        endpoints.append(Endpoint(name, match["six"] or match["host"] or "", port, _protocol(name, protocol_map)))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(f"Each listener in {key} must have a different name, but found {', '.join(names)}")
    ports = [(endpoint.host, endpoint.port) for endpoint in endpoints if endpoint.port]
    if key == "listeners" and len(set(ports)) != len(ports):
        raise ConfigError(f"Each listener in {key} must have a different port")
    return endpoints


def parse_protocol_map(entries: tuple[str, ...]) -> dict[str, str]:
    """Parse `NAME:PROTOCOL` entries into a mapping.

    Raises:
        ConfigError: an entry is not `NAME:PROTOCOL` or the protocol is unknown.
    """
    result: dict[str, str] = {}
    for entry in entries:
        name, colon, protocol = entry.partition(":")
        if not colon or protocol.strip().upper() not in KNOWN_PROTOCOLS:
            raise ConfigError(
                f"Invalid value {shown(entry)} for configuration listener.security.protocol.map: expected "
                f"NAME:PROTOCOL with a protocol of {', '.join(KNOWN_PROTOCOLS)}"
            )
        result[name.strip().upper()] = protocol.strip().upper()
    return result


def parse_connection_overrides(key: str, text: str) -> dict[str, int]:
    """Parse `host:count` entries, separated by commas, into counts by host; a host is an IP address or a name.

    Raises:
        ConfigError: an entry is not `host:count`.
    """
    counts: dict[str, int] = {}
    for entry in text.split(",") if text else ():
        host, _, count = (part.strip() for part in entry.rpartition(":"))
        if not (_HOST.fullmatch(host) and _COUNT.fullmatch(count) and int(count) <= _MOST_CONNECTIONS):
            raise ConfigError(
                f"Invalid value {shown(entry.strip())} for configuration {key}: expected host:count, such as "
                "10.0.0.7:200, with an IP address or the name of a host"
            )
        counts[host] = int(count)
    return counts


def check_connection_overrides(key: str, text: str) -> None:
    """Check entries as `parse_connection_overrides` reads them; it is a `Validator`."""
    parse_connection_overrides(key, text)


def _protocol(name: str, protocol_map: dict[str, str]) -> str:
    protocol = protocol_map.get(name, name)
    if protocol not in KNOWN_PROTOCOLS:
        raise ConfigError(f"No security protocol defined for listener {name}: add it to listener.security.protocol.map")
    return protocol
