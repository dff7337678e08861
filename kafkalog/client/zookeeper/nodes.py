"""The nodes that consumers of Kafka 0.8 read and write, and what they hold. All functions are pure.

    /consumers/GROUP/ids/CONSUMER                 ephemeral: a member and its subscription (`connector.subscription`)
    /consumers/GROUP/owners/TOPIC/PARTITION       ephemeral: the stream that owns the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION      the next offset to read, as decimal digits
    /brokers/ids/ID                               ephemeral: a live broker
    /brokers/topics/TOPIC                         the partitions of a topic, and their replicas

Source: `ZkUtils` and `Broker` of Kafka 0.8.2, `BrokerIdZNode` of Kafka 3.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkalog.client.config import addresses
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper.steps import Children, Read, Steps, ZooKeeperError

CONSUMERS = "/consumers"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"

_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
_MAX_OFFSET = (1 << 63) - 1


class MalformedNodeError(ZooKeeperError):
    """A node does not hold what it should; the text names it."""


class Endpoint(NamedTuple):
    """An address at which a broker listens, and the protocol there (`PLAINTEXT`, `SASL_SSL`, …)."""

    protocol: str
    host: str
    port: int


def check_group(group: str) -> str:
    """Return the name of a group that may be part of a path.

    Raises:
        ConfigError: Kafka 0.8 would refuse it.
    """
    if _LEGAL.fullmatch(group) is None or group in (".", ".."):
        raise ConfigError(f"group.id={group}: expected letters, digits, dots, underscores and hyphens")
    return group


def group(name: str) -> str:
    return f"{CONSUMERS}/{name}"


def members(name: str) -> str:
    return f"{group(name)}/ids"


def all_owners(name: str) -> str:
    return f"{group(name)}/owners"


def owners(name: str, topic: str) -> str:
    return f"{all_owners(name)}/{topic}"


def owner(name: str, tp: TopicPartition) -> str:
    return f"{owners(name, tp.topic)}/{tp.partition}"


def group_offsets(name: str) -> str:
    return f"{group(name)}/offsets"


def offset(name: str, tp: TopicPartition) -> str:
    return f"{group_offsets(name)}/{tp.topic}/{tp.partition}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def parse_json(path: str, data: bytes) -> dict[str, Any]:
    """Return the object that a node holds.

    Raises:
        MalformedNodeError: It holds something else.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MalformedNodeError(f"{path} holds no JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedNodeError(f"{path} holds no JSON object")
    return found


def parse_offset(path: str, data: bytes) -> int:
    """Return the offset that a node holds; -1 means none.

    Raises:
        MalformedNodeError: It holds no offset.
    """
    text = data.decode("ascii", "replace").strip()
    if re.fullmatch(r"-1|[0-9]{1,19}", text) is None or int(text) > _MAX_OFFSET:
        raise MalformedNodeError(f"{path} holds {text[:40]!r}, which is no offset")
    return int(text)


def parse_partitions(path: str, data: bytes) -> list[int]:
    """Return the numbers of a topic's partitions, sorted.

    Raises:
        MalformedNodeError: The node of the topic does not name them.
    """
    found = parse_json(path, data).get("partitions")
    if not isinstance(found, dict) or not all(re.fullmatch(r"[0-9]{1,9}", each) for each in found):
        raise MalformedNodeError(f"{path} names no partitions")
    return sorted(map(int, found))


def parse_endpoints(path: str, data: bytes) -> list[Endpoint]:
    """Return where a broker listens, in the order of its registration.

    Raises:
        MalformedNodeError: It is no registration.
    """
    found = parse_json(path, data)
    try:
        protocols = found.get("listener_security_protocol_map", {})
        endpoints = [_endpoint(each, protocols) for each in found.get("endpoints", ())]
        if not endpoints and found.get("host") is not None:
            endpoints = [Endpoint("PLAINTEXT", str(found["host"]), int(found["port"]))]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedNodeError(f"{path} is no registration of a broker: {error}") from None
    return endpoints


def _endpoint(uri: str, protocols: dict[str, str]) -> Endpoint:
    name, separator, address = uri.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        raise ValueError(f"{uri!r} is no endpoint")
    return Endpoint(str(protocols.get(name, name)), host.removeprefix("[").removesuffix("]"), int(port))


def bootstrap_servers(registrations: Iterable[Iterable[Endpoint]], protocol: str) -> str:
    """Return `bootstrap.servers` of the listeners with a security protocol; empty where no broker has one.

    Raises:
        MalformedNodeError: A listener is at no address that a client could connect to.
    """
    found = []
    for endpoints in registrations:
        for each in endpoints:
            if each.protocol == protocol:
                address = f"[{each.host}]:{each.port}" if ":" in each.host else f"{each.host}:{each.port}"
                try:
                    addresses(address)
                except ConfigError as error:
                    raise MalformedNodeError(f"a broker's registration in ZooKeeper ({BROKER_IDS}): {error}") from None
                found.append(address)
                break
    return ",".join(found)


def read_brokers() -> Steps[list[list[Endpoint]]]:
    """Read where each live broker listens, in the order of their ids."""
    found = []
    for name in sorted((yield Children(BROKER_IDS)) or (), key=_number):
        path = f"{BROKER_IDS}/{name}"
        node = yield Read(path)
        if node is not None:
            found.append(parse_endpoints(path, node.data))
    return found


def _number(name: str) -> tuple[int, str]:
    return (int(name) if name.isdecimal() else 1 << 31, name)
