"""Test that records and assignors agree with Apache Kafka 3.9's own."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from uuid import UUID

import pytest

from broker.coordinator.group.kip848.assignors import ASSIGNORS, GroupSpec, MemberSpec
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.formats.log_records import decode_record
from broker.coordinator.group.kip848.model import Assignment, ClassicMetadata, Member, MemberState, TopicMetadata
from peers import MissingPeerError, require
from peers.brokers import kafka
from peers.toolchains import java
from tests.broker.coordinator.group.kip848.support import topic_id

JUDGE = Path(__file__).with_name("Coordinator.java")
_A_MEMBER = Member(
    "a",
    6,
    5,
    MemberState.UNREVOKED_PARTITIONS,
    "i",
    "r",
    30_000,
    "c",
    "/h",
    frozenset(["t1", "t0"]),
    "",
    "range",
    {topic_id(0): frozenset([0])},
    {topic_id(1): frozenset([2, 1])},
)
_RECORDS = [
    group_records.member_metadata("g", _A_MEMBER),
    group_records.member_metadata("g", Member("b", classic=ClassicMetadata(10_000, (("p", b"\x01\x02"),)))),
    group_records.subscription_metadata("g", {"t0": TopicMetadata(topic_id(0), "t0", 3, {1: frozenset(["y", "x"])})}),
    group_records.group_epoch("g", 7),
    group_records.target_assignment("g", "a", {topic_id(0): frozenset([2, 0])}),
    group_records.target_epoch("g", 7),
    group_records.current_assignment("g", _A_MEMBER),
]
# As Apache Kafka 3.9.2's classes write them.
_BYTES = """\
0005000167000161 0000026902720263032f680303743003743101000075300672616e676500
0005000167000162 0000000001010101ffffffff0001000d01000027100202700301020000
0004000167 000002000000000000000000000000000000640374300000000302000000010302780279000000
0003000167 00000000000700
0007000167000161 000002000000000000000000000000000000640300000000000000020000
0006000167 00000000000700
0008000167000161 00000000000600000005010200000000000000000000000000000064020000000000020000000000000\
00000000000000000650300000001000000020000
"""


def test_records_are_those_of_kafka() -> None:
    lines = [line.split() for line in _BYTES.splitlines()]
    for record, (key, value) in zip(_RECORDS, lines, strict=True):
        assert record.encode() == (bytes.fromhex(key), bytes.fromhex(value)), record
        assert decode_record(bytes.fromhex(key), bytes.fromhex(value)) == record
        assert decode_record(bytes.fromhex(key), None) is not None


def test_records_of_other_kinds_are_left_alone() -> None:
    assert decode_record(bytes.fromhex("0001") + b"\x00\x01g", b"") is None


def test_fields_of_newer_releases_are_passed_over() -> None:
    # Apache Kafka 4.1 tags a hash of the topics to the group's epoch.
    key, _ = group_records.group_epoch("g", 7).encode()
    record = decode_record(key, bytes.fromhex("0000000000070100080102030405060708"))
    assert record == group_records.group_epoch("g", 7)


@cache
def _classpath() -> list[Path]:
    require(java.missing())
    try:
        return kafka.kafka_classpath(kafka.KAFKA_3)
    except MissingPeerError as error:
        require(str(error))
        raise


@pytest.mark.peer
def test_the_bytes_above_are_what_java_writes() -> None:
    assert java.run_java(_classpath(), str(JUDGE), ["records"]) == _BYTES


def _random_group(draw: random.Random, *, homogeneous: bool) -> GroupSpec:
    counts = [draw.randint(1, 12) for _ in range(draw.randint(1, 4))]
    every = frozenset(map(topic_id, range(len(counts))))
    members = [f"m{number}" for number in range(draw.randint(1, 7))]
    assigned: dict[str, dict[UUID, frozenset[int]]] = {member: {} for member in members}
    for number, count in enumerate(counts):
        for partition in range(count):
            owner = draw.choice([*members, None])
            if owner is not None:
                had = assigned[owner].get(topic_id(number), frozenset())
                assigned[owner][topic_id(number)] = had | {partition}
    specs = {}
    for member in members:
        topics = every if homogeneous else frozenset(draw.sample(sorted(every), draw.randint(1, len(every))))
        instance = f"i{draw.randint(0, 10**6)}" if draw.random() < 0.3 else None
        specs[member] = MemberSpec(topics, instance, assigned[member])
    return GroupSpec(specs, {topic_id(number): count for number, count in enumerate(counts)})


def _number(topic: UUID) -> int:
    return topic.int - 100


def _partitions(assignment: Assignment) -> set[str]:
    return {f"{_number(topic)}:{partition}" for topic, some in assignment.items() for partition in some}


def _line(name: str, group: GroupSpec) -> str:
    counts = [str(group.partitions[topic]) for topic in sorted(group.partitions)]
    members = [
        f"{member_id},{member.instance_id or '-'},{' '.join(str(_number(topic)) for topic in sorted(member.topics))},"
        f"{' '.join(sorted(_partitions(member.assigned)))}"
        for member_id, member in group.members.items()
    ]
    return f"{name}|{' '.join(counts)}|{';'.join(members)}"


@pytest.mark.peer
def test_assignors_decide_as_those_of_kafka() -> None:
    draw = random.Random(848)
    cases = [(name, _random_group(draw, homogeneous=number % 2 == 0)) for name in ASSIGNORS for number in range(200)]
    answers = java.run_java(
        _classpath(), str(JUDGE), ["assign"], stdin="".join(_line(*case) + "\n" for case in cases)
    ).splitlines()
    for (name, group), answer in zip(cases, answers, strict=True):
        theirs = {
            member: set(partitions.split())
            for member, _, partitions in (one.partition("=") for one in answer.split(";"))
        }
        ours = {member: _partitions(assignment) for member, assignment in ASSIGNORS[name](group).items()}
        if name == "range":
            assert ours == theirs, _line(name, group)
            continue
        if group.is_homogeneous:
            assert sorted(map(len, ours.values())) == sorted(map(len, theirs.values())), _line(name, group)
            had = {member: _partitions(spec.assigned) for member, spec in group.members.items()}
            # Which members have one more is left to the order of a hash table there: here it costs no more moves.
            kept = sum(len(had[member] & ours[member]) for member in had)
            assert kept >= sum(len(had[member] & theirs[member]) for member in had), _line(name, group)
        else:
            assert set().union(*ours.values()) == set().union(*theirs.values())
            assert max(map(len, ours.values())) <= max(map(len, theirs.values())) + 1, _line(name, group)
