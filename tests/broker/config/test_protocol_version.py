"""`inter.broker.protocol.version`: its values, and the versions of requests that follow, as in Kafka 3.9."""

from __future__ import annotations

import pytest

from broker.config.definition import ConfigError
from broker.config.protocol_version import Feature, ProtocolVersion, is_protocol_version
from kafkalog.protocol.api_keys import ApiKey

SENT = (
    ApiKey.LEADER_AND_ISR,
    ApiKey.UPDATE_METADATA,
    ApiKey.STOP_REPLICA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.FETCH,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.WRITE_TXN_MARKERS,
)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("0.8.2", (0, 0, 0, 0, 0, 0, 0, 0)),
        ("0.9.0", (0, 1, 0, 1, 1, 0, 0, 0)),
        ("0.10.2", (0, 3, 0, 1, 3, 0, 1, 0)),
        ("0.11.0", (0, 3, 0, 1, 5, 0, 2, 0)),
        ("1.0", (1, 4, 0, 1, 5, 0, 2, 0)),
        ("2.1", (1, 4, 0, 1, 10, 2, 4, 0)),
        ("2.2-IV0", (2, 5, 1, 2, 10, 2, 4, 0)),
        ("2.3", (2, 5, 1, 2, 11, 3, 5, 0)),
        ("2.4-IV0", (3, 5, 1, 2, 11, 3, 5, 0)),
        ("2.4", (4, 6, 2, 3, 11, 3, 5, 0)),
        ("2.6", (4, 6, 3, 3, 11, 3, 5, 0)),
        ("2.7", (4, 6, 3, 3, 12, 3, 5, 0)),
        ("2.8-IV0", (4, 6, 3, 3, 12, 4, 6, 1)),
        ("2.8.1", (5, 7, 3, 3, 12, 4, 6, 1)),
        ("3.0", (5, 7, 3, 3, 12, 4, 7, 1)),
        ("3.1", (5, 7, 3, 3, 13, 4, 7, 1)),
        ("3.2", (6, 7, 3, 3, 13, 4, 7, 1)),
        ("3.4", (7, 8, 4, 3, 13, 4, 7, 1)),
        ("3.5-IV0", (7, 8, 4, 3, 14, 4, 8, 1)),
        ("3.5", (7, 8, 4, 3, 15, 4, 8, 1)),
        ("3.7", (7, 8, 4, 3, 16, 4, 8, 1)),
        ("3.9", (7, 8, 4, 3, 17, 4, 9, 1)),
    ],
)
def test_the_version_decides_which_requests_are_sent(text: str, versions: tuple[int, ...]) -> None:
    version = ProtocolVersion.parse(text)
    assert tuple(map(version.request_version, SENT)) == versions


def test_later_versions_are_greater() -> None:
    texts = ["0.8.0", "0.9.0", "0.10.0-IV0", "0.10.0-IV1", "0.10.2", "0.11.0", "1.0-IV0", "2.8-IV0", "2.8-IV1", "3.0"]
    versions = [ProtocolVersion.parse(text) for text in texts]
    assert versions == sorted(versions)
    assert ProtocolVersion.parse("2.8") > ProtocolVersion.parse("2.8-IV1")


@pytest.mark.parametrize(
    ("feature", "last_without", "first_with"),
    [
        (Feature.EPOCH_TRUNCATION, "0.11.0-IV1", "0.11.0-IV2"),
        (Feature.FEATURE_NODE, "2.6", "2.7-IV0"),
        (Feature.TRUNCATION_ON_FETCH, "2.7-IV0", "2.7-IV1"),
        (Feature.ALTER_PARTITION, "2.7-IV1", "2.7"),
        (Feature.TOPIC_IDS, "2.7", "2.8-IV0"),
        (Feature.ALLOCATE_PRODUCER_IDS, "2.8", "3.0-IV0"),
        (Feature.LEADER_RECOVERY, "3.1", "3.2"),
    ],
)
def test_features_begin_with_a_version(feature: Feature, last_without: str, first_with: str) -> None:
    assert not ProtocolVersion.parse(last_without).has(feature)
    assert ProtocolVersion.parse(first_with).has(feature)


@pytest.mark.parametrize("text", ["", "2", "2.9", "2.8-IV2", "4.0", "two", "3.9-IV"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"inter\.broker\.protocol\.version"):
        is_protocol_version("inter.broker.protocol.version", text)
