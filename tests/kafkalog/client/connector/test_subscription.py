"""Nodes of ZooKeeper that members of Kafka 0.8 write about themselves, and nodes that tools and members read."""

from __future__ import annotations

import json

import pytest

from kafkalog.client.connector.subscription import Pattern, Subscription
from kafkalog.client.consumer.topic_filter import Blacklist, TopicFilter, Whitelist
from kafkalog.client.errors import ConfigError
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.nodes import Endpoint, MalformedNodeError

PATH = "/consumers/g/ids/g_host-1-a"
TOPICS = ("words", "words2", "pages", "__consumer_offsets")


def test_a_node_holds_what_kafka_0_8_writes() -> None:
    found = Subscription.of_topics({"words": 2}).encode(1_416_400_000_000)
    assert json.loads(found) == {
        "version": 1,
        "subscription": {"words": 2},
        "pattern": "static",
        "timestamp": "1416400000000",
    }


@pytest.mark.parametrize(
    ("subscription", "topics"),
    [
        (Subscription.of_topics({"words": 2, "more": 1}), {"words": 2, "more": 1}),
        (Subscription.of_filter(Whitelist(" 'words.*, pages'"), 3), {"words": 3, "words2": 3, "pages": 3}),
        (Subscription.of_filter(Blacklist("words"), 1), {"words2": 1, "pages": 1}),
        (Subscription.of_filter(Whitelist(r"wor\ds|words"), 1), {"words": 1}),
    ],
)
def test_subscriptions_survive_their_nodes(subscription: Subscription, topics: dict[str, int]) -> None:
    read = Subscription.decode(PATH, subscription.encode(0))
    assert read == subscription
    assert read.select(TOPICS) == topics


def test_filters_hide_internal_topics_unless_told_otherwise() -> None:
    chosen = Subscription.of_filter(Whitelist(".*"), 1)
    assert "__consumer_offsets" not in chosen.select(TOPICS)
    assert "__consumer_offsets" in chosen.select(TOPICS, exclude_internal=False)


def test_an_unknown_pattern_is_static() -> None:
    found = Subscription.decode(PATH, b'{"pattern": "other", "subscription": {"words": 1}}')
    assert found.pattern is Pattern.STATIC


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"subscription": {"words": 1}}',
        b'{"pattern": "static"}',
        b'{"pattern": "static", "subscription": {"words": 0}}',
        b'{"pattern": "static", "subscription": {"words": true}}',
        b'{"pattern": "static", "subscription": {"words": 1e99}}',
        b'{"pattern": "white_list", "subscription": {"(": 1}}',
        b"[" * 100_000,
    ],
)
def test_damaged_nodes_are_named(data: bytes) -> None:
    with pytest.raises(MalformedNodeError, match=PATH):
        Subscription.decode(PATH, data)


@pytest.mark.parametrize("counts", [{}, {"words": 0}])
def test_a_subscription_needs_streams(counts: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="at least one"):
        Subscription.of_topics(counts)


@pytest.mark.parametrize("data", [b"", b"x", b"-2", b"1.5", b"9223372036854775808", b"1" * 30])
def test_damaged_offsets_are_named(data: bytes) -> None:
    path = nodes.offset("g", TopicPartition("words", 1))
    with pytest.raises(MalformedNodeError, match="/consumers/g/offsets/words/1"):
        nodes.parse_offset(path, data)


def test_offsets_of_others_are_read() -> None:
    assert [nodes.parse_offset("/", data) for data in (b"0", b" 12\n", b"-1", b"9223372036854775807")] == [
        0,
        12,
        -1,
        (1 << 63) - 1,
    ]


def test_partitions_are_in_numeric_order() -> None:
    assert nodes.parse_partitions("/", b'{"partitions": {"10": [1], "9": [1], "0": []}}') == [0, 9, 10]
    with pytest.raises(MalformedNodeError):
        nodes.parse_partitions("/", b'{"partitions": {"x": [1]}}')


def test_brokers_of_all_versions_are_found() -> None:
    old = nodes.parse_endpoints("/", b'{"version": 1, "host": "h", "port": 9092, "jmx_port": -1, "timestamp": "1"}')
    assert old == [Endpoint("PLAINTEXT", "h", 9092)]
    new = nodes.parse_endpoints(
        "/",
        b'{"version": 5, "host": null, "port": -1, "endpoints": ["IN://h:1", "OUT://[::1]:2"], '
        b'"listener_security_protocol_map": {"IN": "SASL_SSL", "OUT": "PLAINTEXT"}}',
    )
    assert new == [Endpoint("SASL_SSL", "h", 1), Endpoint("PLAINTEXT", "::1", 2)]
    assert nodes.bootstrap_servers([old, new], "PLAINTEXT") == "h:9092,[::1]:2"
    assert nodes.bootstrap_servers([old, new], "SASL_SSL") == "h:1"
    for data in (b"{", b'{"endpoints": ["x"]}', b'{"host": "h"}', b'{"endpoints": 1}'):
        with pytest.raises(MalformedNodeError):
            nodes.parse_endpoints("/", data)


@pytest.mark.parametrize("group", ["", "a/b", "..", "a b", "ä"])
def test_groups_that_are_no_part_of_a_path_are_refused(group: str) -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        nodes.check_group(group)


def test_expressions_are_those_of_java() -> None:
    topics = ("abc", "acd", "words2", "2")
    for pattern, expression, expected in (
        ("white_list", r"\p{Alpha}+", {"abc", "acd"}),
        ("white_list", "[a-z&&[^b]]+", {"acd"}),
        ("black_list", "[a-z&&[^b]]+", {"abc", "words2", "2"}),
    ):
        data = json.dumps({"pattern": pattern, "subscription": {expression: 1}}).encode()
        assert Subscription.decode(PATH, data).select(topics).keys() == expected
    ours = Subscription.of_filter(Whitelist(r"\p{Alpha}+,words\d"), 1)
    assert json.loads(ours.encode(0))["subscription"] == {r"\p{Alpha}+|words\d": 1}, "others read what was given"
    assert ours.select(topics).keys() == {"abc", "acd", "words2"}


def test_a_filter_that_members_of_java_cannot_read_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no regular expression of Java"):
        Whitelist("(?P<name>words)")
    with pytest.raises(ConfigError, match="is no regular expression of Java"):
        Subscription.of_filter(TopicFilter.of("(?P<name>words)"), 1)


def test_an_expression_that_cannot_be_read_is_told_with_its_member() -> None:
    data = json.dumps({"pattern": "white_list", "subscription": {r"\p{InGreek}+": 1}}).encode()
    with pytest.raises(MalformedNodeError) as told:
        Subscription.decode(PATH, data)
    assert PATH in str(told.value)
    assert (
        r"name the characters, as in [A-Z]. No member here owns partitions until that member has left the group"
        in str(told.value)
    )
