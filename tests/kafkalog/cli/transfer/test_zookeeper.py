"""Commands with `--zookeeper`, as Kafka 0.8's guide prints them."""

from __future__ import annotations

import signal
import uuid

import pytest

from kafkalog.cli.parser import action_first
from tests.support.command import call, run, start
from tests.support.member import MemberCluster


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


def test_topics_are_created_listed_described_and_altered(over_zookeeper: MemberCluster) -> None:
    topic = f"guide-{uuid.uuid4().hex[:8]}"
    where = ["--zookeeper", over_zookeeper.zookeeper]
    assert call(
        *("topics", "--create", *where, "--replication-factor", "1", "--partitions", "1", "--topic", topic)
    ).out == [f"Created topic {topic}."]
    assert topic in call("topics", "--list", *where).out
    call("topics", *where, "--alter", "--topic", topic, "--partitions", "3")
    described = call("topics", "--describe", *where, "--topic", topic).out
    assert len(described) == 4
    assert "PartitionCount: 3" in described[0]
    call("topics", "--delete", *where, "--topic", topic)


def test_a_console_consumer_reads_and_leaves_nothing_behind(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 2, 0, 10)
    before = over_zookeeper.names("/consumers")
    done = run(
        *("consume", "--zookeeper", over_zookeeper.zookeeper, "--topic", topic, "--from-beginning"),
        *("--max-messages", "10"),
    )
    assert sorted(map(int, done.stdout.split())) == list(range(10))
    assert done.stderr.decode().splitlines()[-1] == "Processed a total of 10 messages"
    assert over_zookeeper.names("/consumers") == before


def test_a_group_goes_on_where_it_was_and_is_not_read_from_the_beginning(
    over_zookeeper: MemberCluster, group: str
) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 10)
    words = ["consume", "--zookeeper", over_zookeeper.zookeeper, "--whitelist", topic, "--group", group]
    assert run(*words, "--from-beginning", "--max-messages", "4").stdout == b"0\n1\n2\n3\n"
    assert over_zookeeper.offsets(group, topic) == {0: 4}
    assert run(*words, "--max-messages", "2").stdout == b"4\n5\n"
    refused = run(*words, "--from-beginning", check=2)
    assert b"--delete-consumer-offsets" in refused.stderr
    again = run(*words, "--from-beginning", "--delete-consumer-offsets", "--max-messages", "1")
    assert again.stdout == b"0\n"


def test_a_consumer_that_is_interrupted_commits_what_it_printed(over_zookeeper: MemberCluster, group: str) -> None:
    topic = over_zookeeper.new_topic(1)
    over_zookeeper.write(topic, 1, 0, 5)
    words = ["consume", "--zookeeper", over_zookeeper.zookeeper, "--group", group, "--from-beginning"]
    process = start(*words, "--blacklist", f"(?!{topic}$).*")
    try:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(5)] == [b"%d\n" % number for number in range(5)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        process.communicate()
    finally:
        process.kill()
        process.wait()
    assert over_zookeeper.offsets(group, topic) == {0: 5}


def test_a_silence_ends_it(over_zookeeper: MemberCluster) -> None:
    topic = over_zookeeper.new_topic(1)
    done = run("consume", "--zookeeper", over_zookeeper.zookeeper, "--topic", topic, "--timeout-ms", "100")
    assert b"no record came for 100 ms" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--topic", "t", "--partition", "0"], "--partition does not go with --zookeeper"),
        (["--topic", "t", "--isolation-level", "read_committed"], "--isolation-level does not go with"),
        (["--topic", "t", "--group", "a/b"], "group.id=a/b"),
        (["--whitelist", "("], "no regular expression"),
        (["--topic", "t", "--consumer-property", "auto.commit.enable=x"], "auto.commit.enable=x"),
    ],
)
def test_mistakes_are_told_in_one_line(words: list[str], message: str) -> None:
    ended = call("consume", "--zookeeper", "127.0.0.1:1", *words, check=2)
    assert message in ended.err
    assert len([line for line in ended.err.splitlines() if line.startswith("kafkalog:")]) == 1


def test_a_zookeeper_that_does_not_answer_is_named() -> None:
    ended = call(
        *("consume", "--zookeeper", "127.0.0.1:1", "--topic", "t"),
        *("--consumer-property", "zookeeper.connection.timeout.ms=100"),
        check=1,
    )
    assert "no ZooKeeper answers at 127.0.0.1:1" in ended.err


def test_deleting_offsets_needs_zookeeper() -> None:
    words = ["--bootstrap-server", "127.0.0.1:1", "--topic", "t", "--delete-consumer-offsets"]
    assert "needs --zookeeper" in call("consume", *words, check=2).err


def test_actions_are_found_wherever_they_stand() -> None:
    actions = ("create", "list")
    assert action_first(["--zookeeper", "z", "--create"], actions) == ["create", "--zookeeper", "z"]
    # Those that come first, and values, stay.
    assert action_first(["create", "--topic", "--list"], actions) == ["create", "--topic", "--list"]
    assert action_first(["--create", "--list"], actions) == ["--create", "--list"]
