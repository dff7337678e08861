"""Test that assignors and the consumer protocol make the same decisions and bytes as Apache Kafka's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.client.consumer.assignors import (
    BUILT_IN,
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
)
from kafkalog.client.consumer.classic.protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition
from peers import require
from peers.brokers import kafka
from peers.toolchains import java

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
SOURCE = Path(__file__).parent / "Assign.java"

Topics = dict[str, list[frozenset[str]]]


class Judge:
    """The Java program, asked one question after the other."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        # What Kafka logs goes the same way.
        line = next(line for line in self._process.stdout if line.startswith("{"))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def assign(self, assignor: Assignor, topics: Topics, members: Mapping[str, Subscription]) -> dict[str, Any]:
        """Kafka's assignments, as hex."""
        return self.ask(
            {
                "assignor": type(assignor).__name__,
                "topics": {name: [sorted(racks) for racks in partitions] for name, partitions in topics.items()},
                "members": [
                    [member, each.instance_id, encode_subscription(each).hex()] for member, each in members.items()
                ],
            }
        )


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    require(kafka.missing(kafka.KAFKA_4))
    line = java.java_line(kafka.kafka_classpath(kafka.KAFKA_4), str(SOURCE), [], ("-Xmx256M", *kafka.JVM_EXTRA))
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield Judge(process)
        finally:
            process.kill()


NAMES = ("t", "topic-b", "Ünï", "a", "zz", "t10")
RACKS = ("r1", "r2", "r3")


@st.composite
def layouts(draw: st.DrawFn, racks: bool) -> Topics:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    of_partition = st.frozensets(st.sampled_from(RACKS), min_size=1, max_size=2) if racks else st.just(frozenset[str]())
    return {name: draw(st.lists(of_partition, max_size=7)) for name in names}


@st.composite
def groups(draw: st.DrawFn, racks: bool) -> dict[str, Subscription]:
    """Members before anything is assigned; some want topics that there are not."""
    ids = draw(st.lists(st.text("abcMz019-", min_size=1, max_size=6), min_size=1, max_size=9, unique=True))
    alike = draw(st.booleans())
    wanted = st.lists(st.sampled_from((*NAMES, "none")), min_size=1, max_size=4, unique=True)
    first = draw(wanted)
    return {
        member: Subscription(
            tuple(first if alike else draw(wanted)),
            rack_id=draw(st.sampled_from((*RACKS, "r9", None))) if racks else None,
            instance_id=f"instance-{at}" if draw(st.booleans()) else None,
        )
        for at, member in enumerate(ids)
    }


def in_hex(decided: Mapping[str, Sequence[TopicPartition]]) -> dict[str, str]:
    return {member: encode_assignment(Assignment(tuple(tps))).hex() for member, tps in decided.items()}


def check(judge: Judge, kind: type[Assignor], topics: Topics, members: Mapping[str, Subscription]) -> Any:
    """Ours decides as Kafka's; the decision."""
    assignor = kind()
    wanted = {name for member in members.values() for name in member.topics}
    layout = {name: racks for name, racks in topics.items() if racks and name in wanted}
    expected = judge.assign(assignor, topics, members)
    if "!" in expected:
        # Where Kafka's fails, ours has only to decide something.
        return None
    # As a leader gets them.
    told = {m: decode_subscription(encode_subscription(each), each.instance_id) for m, each in members.items()}
    decided = assignor.assign(layout, told)
    assert in_hex(decided) == expected
    return decided


@pytest.mark.parametrize("kind", BUILT_IN, ids=lambda kind: kind.name)
@pytest.mark.parametrize("racks", [False, True], ids=["no racks", "racks"])
def test_the_same_decisions(judge: Judge, kind: type[Assignor], racks: bool) -> None:
    @settings(max_examples=40)
    @given(topics=layouts(racks), members=groups(racks))
    def compare(topics: Topics, members: dict[str, Subscription]) -> None:
        check(judge, kind, topics, members)

    compare()


def next_round(
    draw: st.DrawFn,
    kind: type[Assignor],
    members: Mapping[str, Subscription],
    decided: Mapping[str, Sequence[TopicPartition]],
    generation: int,
    racks: bool,
) -> dict[str, Subscription]:
    """Members join again with what they have: some left, some came, some want other topics, some missed a round."""
    again: dict[str, Subscription] = {}
    for member, before in members.items():
        fate = draw(st.sampled_from(("stays", "stays", "stays", "leaves", "changes", "missed it")))
        if fate == "leaves":
            continue
        topics = before.topics
        if fate == "changes":
            topics = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)))
        its = kind()
        had = tuple(decided[member])
        of_generation = generation - draw(st.integers(1, 2)) if fate == "missed it" else generation
        its.on_assignment(Assignment(had), ConsumerGroupMetadata("g", of_generation, member))
        cooperative = kind is CooperativeStickyAssignor
        again[member] = Subscription(
            topics,
            its.user_data(topics),
            had if cooperative else (),
            of_generation if cooperative or draw(st.booleans()) else -1,
            before.rack_id,
            before.instance_id,
        )
    more = draw(groups(racks))
    for member in list(more)[:2]:
        again.setdefault(member, more[member])
    return again or dict(more)


@pytest.mark.parametrize("kind", [StickyAssignor, CooperativeStickyAssignor], ids=lambda kind: kind.name)
@pytest.mark.parametrize("racks", [False, True], ids=["no racks", "racks"])
def test_the_same_decisions_after_others(judge: Judge, kind: type[Assignor], racks: bool) -> None:
    @settings(max_examples=60)
    @given(data=st.data())
    def compare(data: st.DataObject) -> None:
        topics = data.draw(layouts(racks))
        members = data.draw(groups(racks))
        for generation in range(5, 9):
            decided = check(judge, kind, topics, members)
            if decided is None:
                return
            members = next_round(data.draw, kind, members, decided, generation, racks)  # type: ignore[arg-type]
            if data.draw(st.integers(0, 3)) == 0:
                topics = data.draw(layouts(racks))

    compare()


def test_the_same_bytes(judge: Judge) -> None:
    partitions = st.builds(TopicPartition, st.sampled_from(NAMES), st.integers(0, 5))

    @settings(max_examples=30)
    @given(
        kind=st.sampled_from([RangeAssignor, StickyAssignor, CooperativeStickyAssignor]),
        had=st.lists(partitions, max_size=8, unique=True),
        generation=st.integers(-1, 2**31 - 1),
        topics=st.lists(st.sampled_from(NAMES), max_size=5, unique=True),
        rack=st.sampled_from((None, "r1")),
        version=st.integers(0, 3),
    )
    def compare(
        kind: type[Assignor],
        had: list[TopicPartition],
        generation: int,
        topics: list[str],
        rack: str | None,
        version: int,
    ) -> None:
        theirs = judge.ask(
            {
                "assignor": kind.__name__,
                "had": had,
                "generation": generation,
                "topics_wanted": topics,
                "rack": rack,
                "version": version,
            }
        )
        assignor = kind()
        if generation >= 0:
            assignor.on_assignment(Assignment(tuple(had)), ConsumerGroupMetadata("g", generation, "m"))
        user_data = assignor.user_data(topics)
        assert theirs["user_data"] == (None if user_data is None else user_data.hex())
        subscription = Subscription(tuple(topics), user_data, tuple(had), generation, rack)
        encoded = encode_subscription(subscription, version)
        assert theirs["subscription"] == encoded.hex()
        read = decode_subscription(encoded)
        assert set(read.topics) == set(topics)
        assert read.owned == (tuple(sorted(had)) if version >= 1 else ())
        assert read.generation_id == (generation if version >= 2 else -1)
        assert read.rack_id == (rack if version >= 3 else None)
        assert set(decode_assignment(encode_assignment(Assignment(tuple(had)))).partitions) == set(had)

    compare()
