"""kcat, used from a shell: listing, producing, consuming, groups, offsets, transactions."""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from conformance.model import LeftOut, Suite, Target, TestResult
from conformance.runners.checks import run_checks
from peers import kcat
from peers.cache import MissingPeerError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Run the checks. Each has its own topics, which producing to them creates."""
    if reason := kcat.missing():
        raise MissingPeerError(reason)
    return run_checks(CHECKS, target, rules)


def _name() -> str:
    return f"kcat-{uuid.uuid4().hex[:8]}"


def _produce(target: Target, topic: str, lines: Sequence[str], *args: str) -> None:
    kcat.run_kcat(target.bootstrap, ["-P", "-t", topic, *args], stdin="".join(f"{line}\n" for line in lines).encode())


def _consume(target: Target, topic: str, *args: str) -> list[str]:
    return kcat.run_kcat(target.bootstrap, ["-C", "-q", "-e", "-t", topic, *args]).decode().splitlines()


def _group(target: Target, group: str, topics: Sequence[str], *args: str) -> list[str]:
    options = ["-G", group, "-q", "-e", "-X", "auto.offset.reset=earliest", *args]
    return kcat.run_kcat(target.bootstrap, [*options, *topics]).decode().splitlines()


def lists_brokers_and_topics(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["a"], "-p", "0")
    said = json.loads(kcat.run_kcat(target.bootstrap, ["-L", "-J"]))
    assert len(said["brokers"]) == 1
    assert topic in {each["topic"] for each in said["topics"]}


def lists_one_topic(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["a"])
    said = json.loads(kcat.run_kcat(target.bootstrap, ["-L", "-J", "-t", topic]))
    assert [len(each["partitions"]) for each in said["topics"]] == [3], said


def consumes_what_it_produced(target: Target) -> None:
    topic, lines = _name(), [f"line {number}" for number in range(1000)]
    _produce(target, topic, lines, "-p", "0")
    assert _consume(target, topic, "-p", "0") == lines


def consumes_from_all_partitions(target: Target) -> None:
    topic, lines = _name(), [f"line {number}" for number in range(300)]
    _produce(target, topic, lines, "-X", "sticky.partitioning.linger.ms=0")
    assert sorted(_consume(target, topic)) == sorted(lines)


def keeps_keys_and_headers(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["k=v"], "-K", "=", "-H", "name=value", "-p", "0")
    (line,) = _consume(target, topic, "-J")
    said = json.loads(line)
    assert (said["key"], said["payload"], said["headers"]) == ("k", "v", ["name", "value"]), said


def keeps_null_values(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["k="], "-K", "=", "-Z", "-p", "0")
    assert json.loads(_consume(target, topic, "-J")[0])["payload"] is None


def compresses_with_every_codec(target: Target) -> None:
    for codec in CODECS:
        topic, lines = _name(), [f"{codec} {number}" for number in range(500)]
        _produce(target, topic, lines, "-p", "0", "-z", codec)
        assert _consume(target, topic) == lines, codec


def consumes_from_an_offset(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(100)]
    _produce(target, topic, lines, "-p", "0")
    assert _consume(target, topic, "-p", "0", "-o", "90") == lines[90:]


def consumes_from_before_the_end(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(100)]
    _produce(target, topic, lines, "-p", "0")
    assert _consume(target, topic, "-p", "0", "-o", "-5") == lines[95:]


def finds_offsets_by_timestamp(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["a", "b"], "-p", "0")
    first = json.loads(_consume(target, topic, "-p", "0", "-c", "1", "-J")[0])["ts"]
    for when, expected in ((first, 0), (-2, 0), (-1, 2)):
        said = json.loads(kcat.run_kcat(target.bootstrap, ["-Q", "-J", "-t", f"{topic}:0:{when}"]))
        assert said[topic]["0"]["offset"] == expected, (when, said)


def consumes_in_a_group(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(100)]
    _produce(target, topic, lines)
    assert sorted(_group(target, f"group of {topic}", [topic])) == sorted(lines)


def goes_on_where_the_group_was(target: Target) -> None:
    topic = _name()
    _produce(target, topic, ["a", "b"], "-p", "0")
    assert _group(target, f"group of {topic}", [topic]) == ["a", "b"]
    _produce(target, topic, ["c"], "-p", "0")
    assert _group(target, f"group of {topic}", [topic]) == ["c"]


def consumes_a_pattern_of_topics(target: Target) -> None:
    prefix = _name()
    for number in range(2):
        _produce(target, f"{prefix}-{number}", [str(number)], "-p", "0")
    assert sorted(_group(target, f"group of {prefix}", [f"^{re.escape(prefix)}.*"])) == ["0", "1"]


def rebalances_between_two_members(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(300)]
    _produce(target, topic, lines, "-X", "sticky.partitioning.linger.ms=0")
    args = ["-G", f"group of {topic}", "-e", "-X", "auto.offset.reset=earliest", topic]
    members = [
        subprocess.Popen(
            kcat.kcat_line(target.bootstrap, args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    out: list[str] = []
    for member in members:
        out += member.communicate(timeout=90)[0].splitlines()
        assert member.returncode == 0
    assert set(out) >= set(lines)


def produces_idempotently(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(1000)]
    _produce(target, topic, lines, "-p", "0", "-X", "enable.idempotence=true")
    assert _consume(target, topic) == lines


def produces_in_a_transaction(target: Target) -> None:
    topic, lines = _name(), [str(number) for number in range(100)]
    _produce(target, topic, lines, "-p", "0", "-X", f"transactional.id={topic}")
    assert _consume(target, topic, "-X", "isolation.level=read_committed") == lines


CHECKS = (
    lists_brokers_and_topics,
    lists_one_topic,
    consumes_what_it_produced,
    consumes_from_all_partitions,
    keeps_keys_and_headers,
    keeps_null_values,
    compresses_with_every_codec,
    consumes_from_an_offset,
    consumes_from_before_the_end,
    finds_offsets_by_timestamp,
    consumes_in_a_group,
    goes_on_where_the_group_was,
    consumes_a_pattern_of_topics,
    rebalances_between_two_members,
    produces_idempotently,
    produces_in_a_transaction,
)

SUITE = Suite(
    name="kcat",
    version="1.7.1",
    tests="Our own checks of kcat's uses. Its tests need its sources, so they do not run here.",
    run=run,
    broker_settings={"num.partitions": "3"},
)
