"""Values of `inter.broker.protocol.version`, and what follows from them (Kafka: `MetadataVersion`).

A value is a release of Kafka (`2.8`), or one of its internal versions (`2.8-IV0`); a release means its last one. The
value decides which versions of requests a broker sends to other brokers. These are not negotiated: all brokers of a
cluster have the same value, and each understands the versions of all values.
"""

from __future__ import annotations

import functools
import re
from enum import IntEnum
from typing import NamedTuple, Self

from broker.config.definition import ConfigError, Value, shown
from broker.config.message_format import magic_of
from kafkalog.protocol.api_keys import ApiKey

LAST_STEP = 99
"""Stands for the last internal version of a release."""
_FORM = re.compile(r"(?P<release>\d+(?:\.\d+)+)(?:-IV(?P<step>\d+))?")
_OLD_RELEASES = 3
"""The numbers that name a release before 1.0; later ones have two."""


class Feature(IntEnum):
    """Behaviour that depends on `inter.broker.protocol.version`."""

    EPOCH_TRUNCATION = 0
    """Followers ask for the end of a leader epoch before they truncate (KIP-101)."""
    FEATURE_NODE = 1
    """There is a node `/feature` (KIP-584)."""
    TRUNCATION_ON_FETCH = 2
    """Leaders tell followers where to truncate by Fetch (KIP-595)."""
    ALTER_PARTITION = 3
    """Leaders ask the controller to change the ISR, and do not write it to ZooKeeper (KIP-497)."""
    TOPIC_IDS = 4
    """Topics have ids (KIP-516)."""
    ALLOCATE_PRODUCER_IDS = 5
    """Brokers ask the controller for producer ids, and do not take them from ZooKeeper (KIP-730)."""
    LEADER_RECOVERY = 6
    """The state of a partition says that its leader recovers from an unclean election (KIP-704)."""


@functools.lru_cache(maxsize=64)
def _parsed(text: str) -> tuple[tuple[int, ...], int]:
    """Return release and step of a version; followers ask for them each time that a role changes."""
    magic_of(text)
    match = _FORM.match(text)
    assert match is not None
    numbers = tuple(map(int, match["release"].split(".")))
    release = numbers[: _OLD_RELEASES if numbers[0] == 0 else 2]
    return release, LAST_STEP if match["step"] is None else int(match["step"])


class ProtocolVersion(NamedTuple):
    """A value of `inter.broker.protocol.version`. Later versions are greater."""

    release: tuple[int, ...]
    step: int = LAST_STEP
    """The internal version of the release, or LAST_STEP."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a value such as `2.8`, `2.8.1` or `2.8-IV1`.

        Raises:
            ValueError: There is no such release.
        """
        return cls(*_parsed(text))

    def has(self, feature: Feature) -> bool:
        """Return whether brokers of this version use the feature."""
        return self >= _FEATURES[feature]

    def request_version(self, api: ApiKey) -> int:
        """Return the version of a request that a broker sends to another one without negotiating it.

        Raises:
            KeyError: The versions of this API are negotiated.
        """
        return _request_version(self, api)


@functools.lru_cache(maxsize=64)
def _request_version(own: ProtocolVersion, api: ApiKey) -> int:
    """Return a version of a request; followers ask for it with each Fetch."""
    return max(version for since, version in _REQUESTS[api] if own >= since)


def _since(text: str) -> ProtocolVersion:
    release, _, step = text.partition("-IV")
    return ProtocolVersion(tuple(map(int, release.split("."))), int(step or 0))


_FEATURES = {
    Feature.EPOCH_TRUNCATION: _since("0.11.0-IV2"),
    Feature.FEATURE_NODE: _since("2.7-IV0"),
    Feature.TRUNCATION_ON_FETCH: _since("2.7-IV1"),
    Feature.ALTER_PARTITION: _since("2.7-IV2"),
    Feature.TOPIC_IDS: _since("2.8-IV0"),
    Feature.ALLOCATE_PRODUCER_IDS: _since("3.0-IV0"),
    Feature.LEADER_RECOVERY: _since("3.2-IV0"),
}


def _table(text: str) -> tuple[tuple[ProtocolVersion, int], ...]:
    """Read `first version of a release:version of the request`, separated by blanks."""
    return tuple((_since(since), int(version)) for since, version in (each.split(":") for each in text.split()))


_REQUESTS = {
    ApiKey.LEADER_AND_ISR: _table("0:0 1.0:1 2.2:2 2.4:3 2.4-IV1:4 2.8-IV1:5 3.2:6 3.4:7"),
    ApiKey.STOP_REPLICA: _table("0:0 2.2:1 2.4-IV1:2 2.6:3 3.4:4"),
    ApiKey.UPDATE_METADATA: _table("0:0 0.9.0:1 0.10.0-IV1:2 0.10.2:3 1.0:4 2.2:5 2.4-IV1:6 2.8-IV1:7 3.4:8"),
    ApiKey.CONTROLLED_SHUTDOWN: _table("0:0 0.9.0:1 2.2:2 2.4-IV1:3"),
    ApiKey.FETCH: _table(
        "0:0 0.9.0:1 0.10.0:2 0.10.1-IV1:3 0.11.0:4 0.11.0-IV1:5 1.1:7 2.0-IV1:8 2.1-IV2:10 2.3-IV1:11 2.7-IV1:12 "
        "3.1:13 3.5:14 3.5-IV1:15 3.7-IV4:16 3.9:17"
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _table("0:0 2.0:1 2.1-IV1:2 2.3-IV1:3 2.8:4"),
    ApiKey.LIST_OFFSETS: _table("0:0 0.10.1-IV2:1 0.11.0:2 2.0-IV1:3 2.1-IV1:4 2.2-IV1:5 2.8:6 3.0-IV1:7 3.5:8 3.9:9"),
    ApiKey.WRITE_TXN_MARKERS: _table("0:0 2.8:1"),
}


def is_protocol_version(name: str, value: Value) -> None:
    """Validate a value of `inter.broker.protocol.version`."""
    try:
        ProtocolVersion.parse(value)
    except ValueError as error:
        raise ConfigError(f"Invalid value {shown(value)} for configuration {name}: {error}") from None
