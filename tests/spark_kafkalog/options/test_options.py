"""Tests of the source's options: names, defaults, and the messages for refused ones."""

from __future__ import annotations

import pytest

from kafkalog.client.types import READ_COMMITTED, TopicPartition
from spark_kafkalog.options.limits import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, AtTimestamps
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.options.subscription import Assign, Subscribe, SubscribePattern
from spark_kafkalog.sink.sink_options import SinkOptions

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


def parse(**extra: str) -> SourceOptions:
    return SourceOptions.parse({**BASE, **extra})


def without(name: str) -> dict[str, str]:
    return {key: value for key, value in BASE.items() if key != name}


def test_defaults_are_those_of_sparks_source() -> None:
    options = parse()
    assert options.strategy == Subscribe(("t",))
    assert options.client.bootstrap_servers == (("localhost", 9092),)
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.max_trigger_delay_s == 900
    assert options.poll_timeout_ms == 120_000
    assert (options.offset_retries, options.offset_retry_interval_ms) == (3, 10)
    assert (options.max_bytes_per_trigger, options.max_bytes_per_partition, options.commit_group) == (None, None, None)
    assert not options.filter_pushdown
    assert options.batch_limits() == (AtEnd(EARLIEST), AtEnd(LATEST))
    assert options.stream_start() == AtEnd(LATEST)


def test_names_are_compared_without_case() -> None:
    options = SourceOptions.parse(
        {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBE": "t", "FAILONDATALOSS": "False", "MinPartitions": "4"}
    )
    assert not options.fail_on_data_loss
    assert options.min_partitions == 4


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({"subscribe": " a, b ,,a"}, Subscribe(("a", "b"))),
        ({"subscribePattern": " t.* "}, SubscribePattern("t.*")),
        (
            {"assign": '{"a":[0,2],"b":[1]}'},
            Assign(frozenset({TopicPartition("a", 0), TopicPartition("a", 2), TopicPartition("b", 1)})),
        ),
    ],
)
def test_strategies(given: dict[str, str], strategy: object) -> None:
    assert SourceOptions.parse(without("subscribe") | given).strategy == strategy


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign"),
        ({"subscribe": "t", "assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
        ({"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
        ({"assign": "t"}, "No topicpartitions to assign as specified value for option 'assign' is 't'"),
        ({"assign": "{}"}, "No topicpartitions to assign"),
        ({"assign": '{"t":["0"]}'}, r'assign: Expected e.g. {"topicA":\[0,1\],"topicB":\[0,1\]}, got'),
        ({"assign": '{"t":[-1]}'}, "assign: Expected"),
        ({"subscribePattern": " "}, "Pattern to subscribe is empty"),
        ({"subscribePattern": "("}, "is no regular expression"),
        (
            {"subscribePattern": "[^a&&b]"},
            r"subscribePattern '\[\^a&&b\]' is no .* that can be read here: a neg",
        ),
    ],
)
def test_wrong_strategies(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        SourceOptions.parse(without("subscribe") | given)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(OptionsError, match=r"Option 'kafka\.bootstrap\.servers' must be specified"):
        SourceOptions.parse({"subscribe": "t"})
    for given in ("bootstrap.servers", "Bootstrap.Servers"):
        with pytest.raises(OptionsError, match=r"consumer\. Names of client properties begin with 'kafka\.'"):
            SourceOptions.parse({"subscribe": "t", given: "localhost:9092"})
        with pytest.raises(OptionsError, match=r"producer\. Names of client properties begin with 'kafka\.'"):
            SinkOptions.parse({"topic": "t", given: "localhost:9092"})
    with pytest.raises(OptionsError, match=r"kafka\.bootstrap\.servers=localhost: 'localhost' is no address"):
        SourceOptions.parse({"subscribe": "t", "kafka.bootstrap.servers": "localhost"})


@pytest.mark.parametrize(
    "name", ["auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes"]
)
def test_properties_that_are_the_sources_own_business(name: str) -> None:
    with pytest.raises(OptionsError, match=f"Kafka option '{name}' is not supported"):
        parse(**{f"kafka.{name}": "x"})


def test_kafka_properties_pass_through() -> None:
    options = parse(**{"kafka.isolation.level": "read_committed", "kafka.client.id": "me", "kafka.some.other": "1"})
    assert options.client.isolation_level == READ_COMMITTED
    assert options.client.client_id == "me"
    assert options.client.unknown == {"some.other": "1"}
    with pytest.raises(OptionsError, match=r"kafka\.isolation\.level=dirty: expected one of"):
        parse(**{"kafka.isolation.level": "dirty"})


def test_the_rack_of_the_readers(caplog: pytest.LogCaptureFixture) -> None:
    assert parse().client_rack == ""
    assert parse(**{"kafka.client.rack": "r"}).client_rack == "r"
    assert not caplog.records


def test_secrets_are_not_shown() -> None:
    options = parse(
        **{
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": "hidden",
            "kafka.ssl.truststore.location": "/etc/kafkalog/trust.jks",
            "kafka.ssl.truststore.password": "hidden",
        }
    )
    assert "hidden" not in repr(options)


def test_group_id_is_allowed_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    parse(**{"kafka.group.id": "g", "groupIdPrefix": "p"})
    assert "'kafka.group.id' has been set on this query" in caplog.text
    assert "groupIdPrefix will be ignored" in caplog.text


@pytest.mark.parametrize("name", ["minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_counts_are_positive(name: str, value: str) -> None:
    with pytest.raises(OptionsError, match=f"{name} must be positive"):
        parse(**{name: value})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("minPartitions", "many", "minPartitions: expected an integer, got 'many'"),
        ("maxOffsetsPerTrigger", "1_000", "maxOffsetsPerTrigger: expected an integer, got '1_000'"),
        ("startingTimestamp", "1_000", "startingTimestamp: Expected a single long value, got 1_000"),
        ("failOnDataLoss", "maybe", "failOnDataLoss: expected true or false, got 'maybe'"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay: time must be specified as"),
        ("maxTriggerDelay", "5 weeks", "maxTriggerDelay: time must be specified as"),
        ("startingTimestamp", "today", "Expected a single long value, got today"),
        ("startingOffsets", "begin", r"startingOffsets: Expected 'earliest', 'latest', or JSON, e\.g\. "),
        ("startingOffsets", "erliest", r"got erliest; did you mean 'earliest'\?"),
        ("endingOffsets", "lattest", r"endingOffsets: Expected .*, got lattest; did you mean 'latest'\?"),
        ("startingOffsetsByTimestamp", "now", r"startingOffsetsByTimestamp: Expected e\.g\. "),
        ("startingOffsets", "[1]", "startingOffsets: Expected "),
        ("startingOffsets", '{"t":{"0":"1"}}', "startingOffsets: Expected "),
        ("startingOffsets", '{"t":{"zero":1}}', "startingOffsets: Expected "),
        ("startingOffsets", '{"t":{"0":true}}', "startingOffsets: Expected "),
        ("startingOffsets", '{"t":{"0":-1001}}', "-1 stands for latest and -2 for earliest"),
        ("startingOffsets", '{"t":{"' + "1" * 5000 + '":1}}', "startingOffsets: Expected "),
        ("startingOffsets", '{"t":{"0":' + "1" * 5000 + "}}", "startingOffsets: Expected "),
        ("maxTriggerDelay", "1" * 5000, "maxTriggerDelay: time must be specified as"),
        ("maxBytesPerTrigger", "1" * 5000, "maxBytesPerTrigger: expected a size"),
        ("maxOffsetsPerTrigger", "1" * 5000, "maxOffsetsPerTrigger: expected an integer"),
        ("startingOffsetsByTimestamp", "5", "123456789"),
        ("startingOffsetsByTimestampStrategy", "guess", "expected error or latest"),
        ("startingOffsetsStrategy", "latest", "startingOffsetsStrategy: expected error or earliest, got 'latest'"),
        ("fetchOffset.numRetries", "-1", "must not be negative"),
        ("kafkaConsumer.pollTimeoutMs", str(1 << 63), "does not fit in 64 bits"),
        ("minPartitions", str(1 << 31), "minPartitions: 2147483648 does not fit in 32 bits"),
        ("maxBytesPerTrigger", "much", "maxBytesPerTrigger: expected a size such as 1048576, 512k"),
        ("maxBytesPerTrigger", "1.5g", "expected a size"),
        ("maxBatchBytes", "2049m", "maxBatchBytes must be at most 2g, got '2049m'"),
        ("maxBatchBytes", "0", "maxBatchBytes must be positive"),
        ("maxBytesPerPartition", "0", "maxBytesPerPartition must be positive"),
        ("commitGroup", " ", "commitGroup: the name of a consumer group is expected"),
        ("filterPushdown", "yes", "filterPushdown: expected true or false"),
    ],
)
def test_wrong_values(name: str, value: str, message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        parse(**{name: value})


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900), ("30s", 30), ("100ms", 0.1), ("250", 0.25), ("1h", 3600), ("2 min", 120)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("1000", 1000), ("10b", 10), ("512k", 512 << 10), (" 64 MB ", 64 << 20), ("2g", 2 << 30)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse(maxBytesPerTrigger=text).max_bytes_per_trigger == size


def test_a_record_batch_may_expand_to_two_gigabytes() -> None:
    assert parse(maxBatchBytes="2g").max_batch_bytes == 2 << 30


def test_minimum_above_maximum() -> None:
    with pytest.raises(OptionsError, match=r"minOffsetPerTrigger\(5\) is higher than the maxOffsetsPerTrigger\(4\)"):
        parse(minOffsetsPerTrigger="5", maxOffsetsPerTrigger="4")
    assert parse(minOffsetsPerTrigger="4", maxOffsetsPerTrigger="4").min_offsets_per_trigger == 4


T0 = TopicPartition("t", 0)


def test_timestamps_come_before_offsets() -> None:
    given = {"startingOffsets": "latest"}
    assert parse(**given).starting == AtEnd(LATEST)
    given["startingOffsetsByTimestamp"] = '{"t":{"0":5}}'
    assert parse(**given).starting == AtTimestamps({T0: 5})
    given["startingTimestamp"] = "7"
    assert parse(**given).starting == AtTimestamp(7)
    given["startingOffsetsByTimestampStrategy"] = "LATEST"
    assert parse(**given).starting == AtTimestamp(7, latest_if_none=True)
    assert parse(endingTimestamp="8", endingOffsets="latest").ending == AtTimestamp(8)


def test_words_are_trimmed_and_of_any_case() -> None:
    assert parse(startingOffsets=" Earliest ").starting == AtEnd(EARLIEST)
    assert parse(startingOffsets='{"t":{"0":-2}}').starting == AtOffsets({T0: EARLIEST})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets for t-0 can't be latest for batch queries on Kafka"),
        ({"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "ending offset for t-0 can't be earliest for batch queries on Kafka"),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, r"startingTimestamp \(9\) is higher"),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'},
            r"startingOffsets \(9\) is higher than the value of endingOffsets \(8\) for t-0",
        ),
        (
            {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":9,"1":2}}'},
            "startingOffsets and endingOffsets name different topic partitions: only one of them has t-1",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "endingOffsetsByTimestamp": '{"u":{"0":9}}'},
            "name different topic partitions: only one of them has t-0, u-0",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "endingOffsetsByTimestamp": '{"t":{"0":8}}'},
            r"startingOffsetsByTimestamp \(9\) is higher",
        ),
    ],
)
def test_batch_refuses(given: dict[str, str], message: str) -> None:
    options = parse(**given)
    with pytest.raises(OptionsError, match=message):
        options.batch_limits()


def test_an_option_that_is_not_known_is_told(caplog: pytest.LogCaptureFixture) -> None:
    parse(startingOffset="earliest", wholly="other", **{"kafka.fetch.min.bites": "1"})
    assert "Option startingOffset is not known and has no effect; did you mean startingOffsets?" in caplog.text
    assert "Option wholly is not known and has no effect" in caplog.text
    assert "Option kafka.fetch.min.bites is not known and has no effect" in caplog.text


def test_properties_of_java_are_told_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    of_java = {"kafka.ssl.provider": "x", "kafka.metric.reporters": "y"}
    SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **of_java})
    (record,) = caplog.records
    assert record.message == (
        "without effect here: kafka.metric.reporters (these clients report no metrics); "
        "kafka.ssl.provider (OpenSSL does this)"
    )


def test_properties_of_group_members_are_told_in_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """They are no mistakes: queries over Spark's connector have them."""
    parse(**{"kafka.session.timeout.ms": "6000", "kafka.max.poll.records": "1", "kafka.heartbeat.interval.ms": "100"})
    assert [each.message for each in caplog.records] == [
        "without effect here: kafka.heartbeat.interval.ms, kafka.session.timeout.ms (no consumer group is joined)"
    ]


def test_options_that_are_known_are_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    parse(
        FAILONDATALOSS="false",
        startingTimestamp="1",
        startingOffsets="latest",
        **{"kafkaConsumer.pollTimeoutMs": "10", "fetchOffset.numRetries": "1", "kafka.fetch.min.bytes": "1"},
    )
    assert not caplog.records


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"startingTimestamp": "1"}, "startingOffsetsStrategy"),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":5}}', "startingOffsets": '{"t":{"0":9}}'},
            "startingOffsetsStrategy",
        ),
        ({"startingOffsets": "earliest"}, "startingOffsetsStrategy startingOffsetsByTimestampStrategy"),
        ({"startingOffsets": '{"t":{"0":9}}'}, "startingOffsetsByTimestampStrategy"),
        ({}, "startingOffsetsStrategy startingOffsetsByTimestampStrategy"),
    ],
)
def test_a_strategy_for_another_start_is_told(
    given: dict[str, str], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    parse(**given, startingOffsetsStrategy="error", startingOffsetsByTimestampStrategy="error")
    assert not caplog.records
    parse(**given, startingOffsetsStrategy="earliest", startingOffsetsByTimestampStrategy="latest")
    told = [each.message.partition(" has no effect: it is for ")[0] for each in caplog.records]
    assert told == [f"Option {name}" for name in named.split()]


def test_batch_says_what_it_ignores(caplog: pytest.LogCaptureFixture) -> None:
    parse(maxOffsetsPerTrigger="5", maxTriggerDelay="1s", smallBatchBytes="1m", filterPushdown="true").batch_limits()
    assert "maxOffsetsPerTrigger option ignored in batch queries" in caplog.text
    assert "maxTriggerDelay option ignored in batch queries" in caplog.text
    assert "smallBatchBytes option ignored in batch queries" in caplog.text
    assert "filterPushdown" not in caplog.text


def test_a_stream_says_what_it_ignores(caplog: pytest.LogCaptureFixture) -> None:
    parse(maxOffsetsPerTrigger="5", smallBatchBytes="1m", filterPushdown="true").stream_start()
    assert [each.message for each in caplog.records] == ["filterPushdown option ignored in streaming queries"]


def test_an_end_of_a_partition_without_a_start() -> None:
    given = {"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":9,"1":2}}'}
    starting, _ = parse(**given, startingOffsetsStrategy="earliest").batch_limits()
    assert starting == AtOffsets({T0: 9}, earliest_if_none=True)
    given["endingOffsets"] = '{"t":{"1":2}}'
    with pytest.raises(OptionsError, match="only one of them has t-0"):
        parse(**given, startingOffsetsStrategy="earliest").batch_limits()


@pytest.mark.parametrize(
    ("name", "value"),
    [("endingOffsets", "latest"), ("endingOffsetsByTimestamp", '{"t":{"0":5}}'), ("endingTimestamp", "5")],
)
def test_streams_have_no_end(name: str, value: str) -> None:
    options = parse(**{name: value})
    with pytest.raises(OptionsError, match="not valid in streaming queries"):
        options.stream_start()
