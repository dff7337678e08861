"""Test that `kafkalog consume` prints what `kafkalog produce` sent."""

from __future__ import annotations

import argparse
import os
import pty
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kafkalog.cli.shared.interruptible import InterruptedCommand
from kafkalog.cli.transfer.sources import Source, member
from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.types import ConsumerRecord
from tests.support.command import DEADLINE_S, command, run, start
from tests.support.console import consume, new_topic, produce, properties
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until


def test_lines_round_trip(broker_address: str, topic: str) -> None:
    data = b"one\ntwo\r\n\n\xff\x00 not text\nlast without end"
    produce(broker_address, topic, data)
    assert consume(broker_address, topic, 5) == b"one\ntwo\n\n\xff\x00 not text\nlast without end\n"


def test_many_lines_in_order(broker_address: str, topic: str) -> None:
    data = b"".join(b"%d %s\n" % (n, b"x" * (n % 200)) for n in range(50_000))
    assert len(data) > 3 << 20
    produce(broker_address, topic, data, "--compression-codec", "lz4")
    assert consume(broker_address, topic, 50_000) == data


def test_keys_headers_and_nulls(broker_address: str, topic: str) -> None:
    produce(
        broker_address, topic,
        b"a:1,b:NIL;key=value\nc:;NIL=NIL\nNIL;k=v\n",
        *properties("parse.key=true", "key.separator==", "parse.headers=true", "headers.delimiter=;",
                    "null.marker=NIL"),
    )  # fmt: skip
    everything = properties(
        "print.key=true", "print.headers=true", "print.partition=true", "print.offset=true", "key.separator=|",
        "null.literal=(null)", "headers.separator= ",
    )  # fmt: skip
    assert consume(broker_address, topic, 3, *everything).decode().splitlines() == [
        "Partition:0|Offset:0|a:1 b:(null)|key|value",
        "Partition:0|Offset:1|c:|(null)|(null)",
        "Partition:0|Offset:2|NO_HEADERS|k|v",
    ]
    printed = consume(
        broker_address, topic, 3, *properties("print.timestamp=true", "print.value=false", "line.separator=;")
    )
    assert re.fullmatch(rb"(CreateTime:\d{13};){3}", printed)
    assert consume(broker_address, topic, 2, *properties("print.key=true", "print.value=false")) == b"key\nnull\n"


def test_lines_without_separator(broker_address: str, topic: str) -> None:
    keyed = properties("parse.key=true", "key.separator=:")
    done = produce(broker_address, topic, b"a:1\nbare\nc:3\n", *keyed, check=1)
    assert "no key separator found in line 2: 'bare'" in done.stderr.decode()
    assert consume(broker_address, topic, 1) == b"1\n"
    produce(broker_address, topic, b"bare\nc:3\n", *keyed, *properties("ignore.error=true"))
    assert consume(broker_address, topic, 3, *properties("print.key=true")) == b"a\t1\nnull\tbare\nc\t3\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(broker_address: str, topic: str, codec: str) -> None:
    produce(broker_address, topic, b"line\n" * 100, "--compression-codec", codec)
    assert consume(broker_address, topic, 100) == b"line\n" * 100


def test_sync_and_acks(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"1\n2\n", "--sync", "--request-required-acks", "1")
    produce(broker_address, topic, b"3\n", "--request-required-acks", "0")
    assert consume(broker_address, topic, 3) == b"1\n2\n3\n"


def test_keys_stay_together(broker_address: str) -> None:
    name = new_topic(broker_address, 4)
    data = b"".join(b"k%d\t%d\n" % (n % 10, n) for n in range(1000))
    produce(broker_address, name, data, "--property", "parse.key=true")
    printed = consume(broker_address, name, 1000, *properties("print.key=true", "print.partition=true"))
    homes: dict[bytes, set[bytes]] = {}
    seen: dict[bytes, list[int]] = {}
    for line in printed.splitlines():
        partition, key, value = line.split(b"\t")
        homes.setdefault(key, set()).add(partition)
        seen.setdefault(key, []).append(int(value))
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert len(set.union(*homes.values())) > 1
    assert all(values == sorted(values) and len(values) == 100 for values in seen.values())


def test_what_another_client_reads(broker_address: str, topic: str) -> None:
    produce(
        broker_address, topic, b"h:1|k\tv\n",
        *properties("parse.key=true", "parse.headers=true", "headers.delimiter=|"),
    )  # fmt: skip
    consumer = Consumer({"bootstrap.servers": broker_address, "group.id": "unused"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None
        assert (message.key(), message.value(), message.headers()) == (b"k", b"v", [("h", b"1")])
    finally:
        consumer.close()


def test_offsets(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"".join(b"%d\n" % n for n in range(10)))

    def from_offset(offset: str, *words: str) -> bytes:
        return run("consume", "--bootstrap-server", broker_address, "--topic", topic, "--partition", "0",
                   "--offset", offset, *words).stdout  # fmt: skip

    assert from_offset("7", "--max-messages", "2") == b"7\n8\n"
    assert from_offset("earliest", "--max-messages", "1") == b"0\n"
    assert from_offset("latest", "--timeout-ms", "100") == b""
    assert from_offset("9", "--timeout-ms", "3000") == b"9\n"


def test_new_records_only(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"old\n")
    with start("consume", "--bootstrap-server", broker_address, "--topic", topic, "--max-messages", "1") as consumer:
        assert consumer.stdout is not None
        try:
            # It prints the first of these that came after it had begun to listen.
            end = time.monotonic() + DEADLINE_S
            while consumer.poll() is None:
                assert time.monotonic() < end
                produce(broker_address, topic, b"new\n")
            assert consumer.stdout.read() == b"new\n"
        finally:
            consumer.kill()


def test_a_reader_that_has_enough(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"x" * 100 + b"\n" + b"line\n" * 50_000)
    with start("consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning") as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        try:
            assert consumer.stdout.readline() == b"x" * 100 + b"\n"
            consumer.stdout.close()
            consumer.wait(DEADLINE_S)
            assert re.fullmatch(rb"Processed a total of \d+ messages\n", consumer.stderr.read())
        finally:
            consumer.kill()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_that_cannot_be_written(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"one\n")
    for words in (
        ["consume", "--topic", topic, "--from-beginning", "--max-messages", "1"],
        ["topics", "list"],
    ):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                command(*words, "--bootstrap-server", broker_address),
                stdin=subprocess.DEVNULL,
                stdout=full,
                stderr=subprocess.PIPE,
                timeout=DEADLINE_S,
                check=False,
            )
        assert done.returncode == 1
        told = [line for line in done.stderr.decode().splitlines() if not line.startswith("Processed a total of")]
        assert told == ["kafkalog: [Errno 28] No space left on device"]


def test_streams_that_are_closed(broker_address: str, topic: str) -> None:
    words = ["--bootstrap-server", broker_address, "--topic", topic]
    for line in (
        [*command("produce", *words), "<&-"],
        [*command("consume", *words, "--from-beginning", "--timeout-ms", "0"), ">&-", "2>&-"],
    ):
        done = subprocess.run(
            ["sh", "-c", " ".join(line)], stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_read_committed(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"one\n")
    assert consume(broker_address, topic, 1, "--isolation-level", "read_committed") == b"one\n"


def test_configuration_files(broker_address: str, topic: str, tmp_path: Path) -> None:
    producer, reader = tmp_path / "producer.properties", tmp_path / "reader.properties"
    producer.write_text("bootstrap.servers=ignored:1\ncompression.type=zstd\nkey.serializer=x\n")
    reader.write_text("parse.key=true\nkey.separator=:\n")
    done = produce(
        broker_address, topic, b"a:1\n", "--producer.config", str(producer), "--reader-config", str(reader),
        "--producer-property", "no.such.thing=1",
    )  # fmt: skip
    assert done.stderr == b"kafkalog: the property no.such.thing is not known and has no effect\n"
    formatter = tmp_path / "formatter.properties"
    formatter.write_text("print.key=true\n")
    assert consume(broker_address, topic, 1, "--formatter-config", str(formatter)) == b"a\t1\n"


def test_undelivered_lines(broker_address: str) -> None:
    name = new_topic(broker_address, 1, "--config", "max.message.bytes=1000")
    done = produce(broker_address, name, b"one\n" + b"x" * 2000 + b"\nthree\n", check=1)
    message = done.stderr.decode()
    assert f"sending to {name}: MESSAGE_TOO_LARGE" in message
    assert message.endswith("kafkalog: 1 records were not delivered\n")
    assert consume(broker_address, name, 2) == b"one\nthree\n"


def test_undelivered_lines_of_a_transaction(broker_address: str) -> None:
    name = new_topic(broker_address, 1, "--config", "max.message.bytes=1000")
    words = "--producer-property", f"transactional.id={name}"
    done = produce(broker_address, name, b"one\n" + b"x" * 2000 + b"\n", *words, check=1)
    message = done.stderr.decode()
    assert f"sending to {name}: MESSAGE_TOO_LARGE" in message
    assert re.search(r"kafkalog: \d records were not delivered\n", message)
    assert "because of an earlier error" in message.splitlines()[-1]


def test_a_line_longer_than_any_request(broker_address: str, topic: str) -> None:
    data = b"one\n" + b"x" * 3_000_000 + b"\nthree\n"
    done = produce(broker_address, topic, data, check=1)
    assert "max.request.size" in done.stderr.decode()
    assert done.stderr.endswith(b"kafkalog: 1 records were not delivered\n")
    assert consume(broker_address, topic, 2) == b"one\nthree\n"
    produce(broker_address, topic, data, "--producer-property", f"transactional.id={topic}", check=1)
    assert consume(broker_address, topic, 2, "--isolation-level", "read_committed", "--timeout-ms", "1000") == (
        b"one\nthree\n"
    )


def test_a_record_that_fails_ends_the_input_of_sync(broker_address: str) -> None:
    """As with Kafka's tool: who waits for each record does not want later ones without it."""
    name = new_topic(broker_address, 1, "--config", "max.message.bytes=1000")
    done = produce(broker_address, name, b"one\n" + b"x" * 2000 + b"\nthree\n", "--sync", check=1)
    assert f"sending to {name}: MESSAGE_TOO_LARGE" in done.stderr.decode()
    produce(broker_address, name, b"four\n")
    assert consume(broker_address, name, 2) == b"one\nfour\n"


def test_a_topic_that_does_not_exist(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"auto.create.topics.enable": "false"})
    said = produce(broker.bootstrap, "missing", b"x\n", check=1).stderr
    # On a busy machine it may first say that the broker is slow to answer.
    assert said.splitlines()[-1].startswith(b"kafkalog: topic missing does not exist; ")
    done = run("consume", "--bootstrap-server", broker.bootstrap, "--topic", "missing", check=1)
    assert "missing" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_wrong_usage(broker_address: str, topic: str) -> None:
    for words, message in (
        (["--property", "parse.keys=true"], "parse.keys: not known"),
        (["--property", "parse"], "expected KEY=VALUE"),
        (["--producer-property", "acks=9"], "acks=9"),
        (["--compression-codec", "br"], "compression.type=br"),
        (["--property", "headers.separator=:"], "may not be equal"),
    ):
        assert message in produce(broker_address, topic, b"", *words, check=2).stderr.decode()
    for words, message in (
        (["--offset", "3"], "--offset needs --partition"),
        (["--offset", "x", "--partition", "0"], "expected earliest, latest or a number"),
        (["--offset", str(1 << 63), "--partition", "0"], "expected earliest, latest or a number"),
        (["--offset", "3", "--partition", "0", "--from-beginning"], "cannot go together"),
        (["--partition", "-1"], "no integer from 0 to 2147483647"),
        (["--from-beginning", "--consumer-property", "auto.offset.reset=latest"], "contradict each other"),
        (["--partition", "0", "--consumer-property", "group.id=g"], "--partition goes with neither --group"),
        (["--property", "print.keys=true"], "print.keys: not known"),
    ):
        done = run("consume", "--bootstrap-server", broker_address, "--topic", topic, *words, check=2)
        assert message in done.stderr.decode()
    done = run("consume", "--bootstrap-server", broker_address, "--topic", topic, "--partition", "9", check=1)
    assert "no partition 9" in done.stderr.decode()


def test_typing(broker_address: str, topic: str) -> None:
    """On a terminal there is a prompt, and a line is sent when it is entered."""
    near, far = pty.openpty()
    with subprocess.Popen(
        [*command("produce"), "--bootstrap-server", broker_address, "--topic", topic],
        stdin=far,
        stdout=subprocess.PIPE,
    ) as typed:
        os.close(far)
        try:
            assert typed.stdout is not None
            assert typed.stdout.read(1) == b">"
            os.write(near, b"typed\n")
            assert consume(broker_address, topic, 1) == b"typed\n"
            assert typed.poll() is None
            os.write(near, b"\x04")
            assert typed.wait(DEADLINE_S) == 0
        finally:
            typed.kill()
            os.close(near)


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["produce", "consume"])
def test_help(name: str) -> None:
    text = run(name, "--help").stdout.decode()
    assert "examples:" in text
    assert "--property" in text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_goes_on_where_it_stopped(broker_address: str, topic: str, protocol: str) -> None:
    group = f"group-{topic}"
    produce(broker_address, topic, b"one\ntwo\nthree\n")
    words = ["--group", group, "--consumer-property", f"group.protocol={protocol}"]
    assert consume(broker_address, topic, 2, *words) == b"one\ntwo\n"
    assert consume(broker_address, topic, 1, *words) == b"three\n"
    produce(broker_address, topic, b"four\n")
    assert consume(broker_address, topic, 1, *words, "--consumer-property", f"group.id={group}") == b"four\n"


def test_what_was_not_printed_is_not_committed(broker_address: str, topic: str) -> None:
    """A signal may come when the consumer has handed records out, and before they are printed."""
    group = f"group-{topic}"
    produce(broker_address, topic, b"one\ntwo\nthree\n")
    config = ConsumerConfig.from_dict(
        {"bootstrap.servers": broker_address, "group.id": group, "auto.offset.reset": "earliest"}
    )

    def interrupted() -> None:
        with member(config, argparse.Namespace(include=None, blacklist=None, topic=topic)) as source:
            assert [record.value for record in poll(source, 2)] == [b"one", b"two"]
            source.printed()
            assert [record.value for record in poll(source, 1)] == [b"three"]
            raise InterruptedCommand

    with pytest.raises(InterruptedCommand):
        interrupted()
    assert consume(broker_address, topic, 1, "--group", group) == b"three\n"


def poll(source: Source, count: int) -> list[ConsumerRecord]:
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        if records := source.poll(1.0, count):
            return records
    raise AssertionError("no record came")


def committed(broker_address: str, group: str) -> dict[int, int]:
    """Return the offsets that a group has committed of its one topic, by partition."""
    with GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": broker_address})) as admin:
        return {tp.partition: found.offset for tp, found in admin.offsets([group])[group].items()}


def test_what_was_printed_is_committed_when_nothing_more_comes(broker_address: str, topic: str) -> None:
    group = f"group-{topic}"
    words = ["--topic", topic, "--group", group, "--consumer-property", "auto.commit.interval.ms=2000"]
    produce(broker_address, topic, b"one\n")
    producer = Producer({"bootstrap.servers": broker_address})
    with start("consume", "--bootstrap-server", broker_address, "--from-beginning", *words) as consumer:
        assert consumer.stdout is not None
        try:
            assert consumer.stdout.readline() == b"one\n"
            # By now the first commit may be due, but not yet the second.
            wait_until(lambda: committed(broker_address, group) == {0: 1}, "the first commit")
            producer.produce(topic, b"two")
            producer.flush()
            assert consumer.stdout.readline() == b"two\n"
            wait_until(lambda: committed(broker_address, group) == {0: 2}, "the second commit")
        finally:
            consumer.kill()


def test_a_group_that_printed_nothing_goes_on_where_it_began(broker_address: str) -> None:
    name = new_topic(broker_address, 2)
    group = f"group-{name}"
    producer = Producer({"bootstrap.servers": broker_address})
    producer.produce(name, b"old", partition=0)
    producer.flush()
    words = ["--bootstrap-server", broker_address, "--topic", name, "--group", group]
    with start("consume", *words, "--consumer-property", "auto.commit.interval.ms=500") as consumer:
        try:
            wait_until(lambda: committed(broker_address, group) == {0: 1, 1: 0}, "a commit")
            consumer.terminate()
            consumer.wait(DEADLINE_S)
        finally:
            consumer.kill()
    producer.produce(name, b"new", partition=0)
    producer.flush()
    assert run("consume", *words, "--max-messages", "1").stdout == b"new\n"


def test_deserializers(broker_address: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker_address})
    for key, value in ((b"a", (7).to_bytes(8, "big")), (None, (-1).to_bytes(8, "big", signed=True)), (b"c", b"x")):
        producer.produce(topic, value, key)
    producer.flush(60)
    package = "org.apache.kafka.common.serialization."
    words = (
        "consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning", "--max-messages", "3",
        "--property", "print.key=true", "--property", f"key.deserializer={package}StringDeserializer",
        "--value-deserializer", f"{package}LongDeserializer",
    )  # fmt: skip
    done = run(*words, check=1)
    assert done.stdout == b"a\t7\nnull\t-1\n"
    assert f"{topic}-0 offset 2: 1 bytes are no integer of 8 bytes; --skip" in done.stderr.decode()
    assert b"Processed a total of 2 messages" in done.stderr
    assert run(*words, "--skip-message-on-error", "--timeout-ms", "9000").stdout == done.stdout
    assert b"expected one of StringDeserializer, " in run(*words, "--value-deserializer", "Avro", check=2).stderr


def test_minus_one_is_no_limit(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"one\n")
    words = "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning", "--max-messages", "-1"
    assert run("consume", *words, "--timeout-ms", "1000").stdout == b"one\n"
    assert run("consume", *words[:-1], "1", "--timeout-ms", "-1").stdout == b"one\n"


def test_topics_of_an_expression(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, b"one\n")
    done = run("consume", "--bootstrap-server", broker_address, "--include", f"{topic}|none", "--from-beginning",
               "--max-messages", "1")  # fmt: skip
    assert done.stdout == b"one\n"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "one of the arguments --topic --include/--whitelist --blacklist is required"),
        (["--topic", "t", "--include", "t"], "not allowed with argument"),
        (["--topic", "t", "--partition", "0", "--group", "g"], "--partition goes with neither --group nor --include"),
        (["--topic", "t", "--group", "g", "--consumer-property", "group.id=h"], "group.id=h"),
        (["--include", "("], "'(' is no regular expression of Java"),
    ],
)
def test_what_to_read_is_told_wrongly(words: list[str], says: str) -> None:
    done = run("consume", "--bootstrap-server", "127.0.0.1:1", *words, check=2)
    assert says in done.stderr.decode()
    assert b"Processed" not in done.stderr


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("consume", "--frm"), b"kafkalog consume: error: "),
        (("topics", "list", "--bootstrap-server", "h:1", "--frm"), b"kafkalog topics list: error: unrecognized"),
    ],
)
def test_an_unknown_option_is_told_with_its_command(words: tuple[str, ...], said: bytes) -> None:
    done = run(*words, check=2)
    assert b"usage: kafkalog " + " ".join(words[: -1 if len(words) == 2 else 2]).encode() in done.stderr
    assert said in done.stderr


def test_properties_of_members_need_a_group(broker_address: str, topic: str) -> None:
    words = (
        "consume",
        "--bootstrap-server",
        broker_address,
        "--topic",
        topic,
        "--timeout-ms",
        "1",
        "--consumer-property",
    )
    done = run(*words, "group.protocol=consumer")
    assert b"the property group.protocol has no effect without --group" in done.stderr
    done = run(*words, "group.protocol=foo", check=2)
    assert b"group.protocol" in done.stderr
    done = run(*words, "key.deserializer=org.apache.kafka.common.serialization.StringDeserializer", "--group", topic)
    assert done.stderr.startswith(b"kafkalog: no record came")


def test_a_member_is_warned_of_a_missing_topic(broker_address: str) -> None:
    done = run("consume", "--bootstrap-server", broker_address, "--topic", "is-not-there", "--group", "g-missing",
               "--timeout-ms", "3000", "--consumer-property", "allow.auto.create.topics=false")  # fmt: skip
    assert done.stderr.count(b"topic is-not-there cannot be read now") == 1
