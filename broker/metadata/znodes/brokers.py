"""`/brokers/ids/<id>`: the registration of a live broker (Kafka: `BrokerIdZNode`). An ephemeral node.

Version 1 (0.8) has a host and a port, 2 (0.9) endpoints, 3 a rack, 4 (0.10) the protocols of the listeners, 5 (2.7)
features. `host` and `port` are those of the first PLAINTEXT endpoint, for old clients. Clients of 0.8 and 0.9.0.0
cannot read versions above 2 (KAFKA-3100).

A key of our own, which Kafka ignores, says that the broker stops leading when its registration is deleted.

The broker's epoch is not in the data: it is the number of the transaction that created the node (czxid).
"""

from __future__ import annotations

from typing import Any

from broker.config.listeners import Endpoint
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import integer, read, text, write

VERSION = 5
_NO_PORT = -1
_HOST_VERSION = 1
_RACK_FROM = 3
_PROTOCOLS_FROM = 4
_FEATURES_FROM = 5
_OWN_KEY = "kafkalog"
_WATCHES = "watches_registration"


def encode(broker: BrokerRegistration, timestamp_ms: int, version: int = VERSION) -> bytes:
    """Return the data of a registration, in a version from 2 to 5."""
    plain = next((each for each in broker.endpoints if each.protocol == "PLAINTEXT"), None)
    content: dict[str, Any] = {
        "version": version,
        "host": plain.host if plain else None,
        "port": plain.port if plain else _NO_PORT,
        "endpoints": [str(each) for each in broker.endpoints],
        "jmx_port": -1,
        "timestamp": str(timestamp_ms),
    }
    if broker.rack is not None and version >= _RACK_FROM:
        content["rack"] = broker.rack
    if version >= _PROTOCOLS_FROM:
        content["listener_security_protocol_map"] = {each.name: each.protocol for each in broker.endpoints}
    if version >= _FEATURES_FROM:
        content["features"] = {}
    if broker.watches_itself:
        content[_OWN_KEY] = {_WATCHES: True}
    return write(content)


def decode(broker_id: int, data: bytes, epoch: int) -> BrokerRegistration:
    """Return the registration of a node that was created by transaction `epoch`.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> BrokerRegistration:
        version = integer(found["version"])
        if version < _HOST_VERSION:
            raise ValueError(f"version {version} is not known")
        if version == _HOST_VERSION:
            endpoints = [Endpoint("PLAINTEXT", text(found["host"]), integer(found["port"]), "PLAINTEXT")]
        else:
            protocols = found.get("listener_security_protocol_map", {})
            endpoints = [_endpoint(text(each), protocols) for each in found["endpoints"]]
        rack = found.get("rack")
        watches_itself = found.get(_OWN_KEY, {}).get(_WATCHES) is True
        return BrokerRegistration(
            broker_id, tuple(endpoints), None if rack is None else text(rack), epoch, watches_itself
        )

    return read(paths.broker_id(broker_id), data, take)


def _endpoint(uri: str, protocols: dict[str, Any]) -> Endpoint:
    """Parse `LISTENER://host:port`; without a map of protocols the listener has its protocol's name."""
    name, separator, address = uri.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"{uri!r} is not an endpoint")
    return Endpoint(name, host.removeprefix("[").removesuffix("]"), int(port), text(protocols.get(name, name)))
