"""Test the properties of planning over maps of offsets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.types import TopicPartition
from spark_kafkalog import offsets
from spark_kafkalog.data_loss import Condition, DataLossError, reporter
from spark_kafkalog.offsets import OffsetRange, Offsets, Position
from spark_kafkalog.options.limits import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, AtTimestamps, Limit
from spark_kafkalog.options.parsing import OptionsError, parse_offsets
from spark_kafkalog.plan.ranges import batch_ranges, stream_ranges
from spark_kafkalog.plan.splitting import split
from spark_kafkalog.plan.start_and_end import resolve

PARTITIONS = st.builds(TopicPartition, st.sampled_from(["a", "b", "c.d", "e_f-g"]), st.integers(0, 12))
OFFSETS = st.dictionaries(PARTITIONS, st.integers(0, 1 << 62), max_size=8)
SMALL = st.integers(0, 1000)
RANGES = st.lists(
    st.builds(lambda tp, start, size: OffsetRange(tp, start, start + size), PARTITIONS, SMALL, st.integers(0, 5000)),
    max_size=8,
    unique_by=lambda part: part.tp,
)
COUNTS = st.none() | st.integers(1, 40)


# ---------------------------------------------------------------------------------------------- JSON


@given(OFFSETS, st.randoms(use_true_random=False))
def test_equal_offsets_have_equal_text(positions: dict[TopicPartition, int], random: object) -> None:
    items = list(positions.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    text = json.dumps(offsets.to_json(dict(items)))
    assert text == json.dumps(offsets.to_json(positions))
    assert offsets.from_json(json.loads(text)) == positions
    assert offsets.initial_of(json.loads(text)) is None


def test_partitions_are_ordered_by_number() -> None:
    positions = {TopicPartition("b", 10): 1, TopicPartition("b", 9): 2, TopicPartition("a", 0): 3}
    assert json.dumps(offsets.to_json(positions)) == '{"a": {"0": 3}, "b": {"9": 2, "10": 1}}'


@given(OFFSETS, OFFSETS)
def test_the_first_end_carries_the_start(start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> None:
    document = json.loads(json.dumps(offsets.with_initial(offsets.to_json(end), start)))
    assert offsets.from_json(document) == end
    assert offsets.initial_of(document) == Position(start)


def test_a_start_written_under_its_topics_name_is_read() -> None:
    """Read the form of checkpoints that earlier versions wrote."""
    document = {"t": {"0": 9}, "initial:t": {"0": 5, "1": 7}, "initial:id:J2zBe_1rTjG0dC4QO1bWWg:t": {}}
    start = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    assert offsets.initial_of(document) == Position(start, {"t": "J2zBe_1rTjG0dC4QO1bWWg"})
    assert offsets.from_json(document) == {TopicPartition("t", 0): 9}


def test_a_start_that_is_no_start_is_refused() -> None:
    with pytest.raises(ValueError, match="no offset of this source"):
        offsets.initial_of({"t": {"0": 9}, "initial:0=x:t": {}})


IDS = st.uuids().map(offsets.topic_mark)
MARKS = st.dictionaries(st.sampled_from(["a", "b", "c.d", "e_f-g"]), IDS)


@given(OFFSETS, OFFSETS, MARKS)
def test_marks_of_topics_travel_with_the_offsets(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], marks: dict[str, str]
) -> None:
    def marked(positions: dict[TopicPartition, int]) -> Position:
        topics = {tp.topic for tp in positions}
        return Position(positions, {topic: mark for topic, mark in marks.items() if topic in topics})

    text = json.dumps(offsets.with_initial(offsets.to_json(marked(end)), marked(start)))
    assert offsets.position_of(json.loads(text)) == marked(end)
    assert offsets.initial_of(json.loads(text)) == marked(start)


@given(OFFSETS, OFFSETS, MARKS)
def test_marks_and_starts_hold_no_partitions(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], marks: dict[str, str]
) -> None:
    """Check what Spark's own source, `startingOffsets` and sums of offsets find in a document."""
    document = json.loads(
        json.dumps(offsets.with_initial(offsets.to_json(Position(end, marks)), Position(start, marks)))
    )
    found = {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in document.items()
        for partition, offset in partitions.items()
    }
    assert found == end
    assert parse_offsets("startingOffsets", json.dumps(document)) == end


def test_the_text_of_a_marked_offset() -> None:
    mark = offsets.topic_mark(UUID("276cc17b-fd6b-4e31-b474-2e103b56d65a"))
    position = Position({TopicPartition("t", 10): 1, TopicPartition("t", 9): 2}, {"t": mark or "", "other": "x"})
    assert json.dumps(offsets.to_json(position)) == '{"t": {"9": 2, "10": 1}, "id:J2zBe_1rTjG0dC4QO1bWWg:t": {}}'
    assert offsets.topic_mark(UUID(int=0)) is None


def test_an_unknown_mark_is_no_other_topic() -> None:
    old, new = Position({A0: 5}, {"a": "one"}), Position({A0: 5}, {"a": "two"})
    assert old.recreated(new) == {"a"}
    assert old.surviving(new) == {}
    for known in (old, Position({A0: 5})):
        assert known.recreated(Position({A0: 9})) == set()
        assert known.surviving(Position({A0: 9}, {"a": "one"})) == {A0: 5}


@pytest.mark.parametrize("document", [{"t": 5}, {"t": {"x": 1}}, {"t": {"0": None}}, {"version": "1"}])
def test_offsets_of_another_source(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="no offset of this source"):
        offsets.from_json(document)


# ---------------------------------------------------------------------------------------------- limits


class Log:
    """The answers of brokers: where each partition begins and ends, and that offset n has timestamp 10 n."""

    def __init__(self, bounds: Mapping[TopicPartition, tuple[int, int]]) -> None:
        self.bounds = bounds
        self.asked: list[dict[TopicPartition, int]] = []

    def __call__(self, times: Mapping[TopicPartition, int]) -> Offsets:
        self.asked.append(dict(times))
        return {tp: self.offset(tp, time) for tp, time in times.items() if tp in self.bounds}

    def offset(self, tp: TopicPartition, time: int) -> int:
        begin, end = self.bounds[tp]
        if time in (EARLIEST, LATEST):
            return begin if time == EARLIEST else end
        found = max(begin, -(-time // 10))
        return found if found < end else -1


A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
LOG = {A0: (5, 50), A1: (0, 20)}


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (AtEnd(EARLIEST), {A0: 5, A1: 0}),
        (AtEnd(LATEST), {A0: 50, A1: 20}),
        (AtOffsets({A0: 7, A1: LATEST}), {A0: 7, A1: 20}),
        (AtOffsets({A0: EARLIEST, A1: 3}), {A0: 5, A1: 3}),
        (AtTimestamp(95), {A0: 10, A1: 10}),
        (AtTimestamps({A0: 0, A1: 190}), {A0: 5, A1: 19}),
        (AtTimestamp(300, latest_if_none=True), {A0: 30, A1: 20}),
    ],
)
def test_limits_become_offsets(limit: Limit, expected: Offsets) -> None:
    assert resolve(limit, LOG.keys(), Log(LOG), starting=True) == expected


def test_an_end_without_a_match_is_the_end() -> None:
    assert resolve(AtTimestamp(300), LOG.keys(), Log(LOG), starting=False) == {A0: 30, A1: 20}


def test_a_start_without_a_match_is_refused() -> None:
    with pytest.raises(OptionsError, match="No offset matched from request of topic-partition a-1 and timestamp 300"):
        resolve(AtTimestamp(300), LOG.keys(), Log(LOG), starting=True)


class GrowingLog(Log):
    """A log in which partition a-1 gets a record after each answer."""

    def __call__(self, times: Mapping[TopicPartition, int]) -> Offsets:
        answer = super().__call__(times)
        begin, end = self.bounds[A1]
        self.bounds = {**self.bounds, A1: (begin, end + 1)}
        return answer


def test_a_start_without_a_match_is_before_a_record_that_comes_while_it_is_looked_for() -> None:
    """The record at offset 20 has the timestamp of the start, and is written after no such record was found."""
    assert resolve(AtTimestamp(200, latest_if_none=True), LOG.keys(), GrowingLog(LOG), starting=True)[A1] == 20


def test_an_end_without_a_match_is_before_a_record_that_comes_while_it_is_looked_for() -> None:
    assert resolve(AtTimestamp(200), LOG.keys(), GrowingLog(LOG), starting=False)[A1] == 20


def test_the_start_and_the_end_at_one_time_are_the_same_while_records_come() -> None:
    """Two batch queries that end and start at one time read each record once; one query from it to it reads none."""
    log = GrowingLog(LOG)
    start = resolve(AtTimestamp(200, latest_if_none=True), LOG.keys(), log, starting=True)
    end = resolve(AtTimestamp(200), LOG.keys(), log, starting=False)
    assert batch_ranges(start, end) == []


@pytest.mark.parametrize("named", [{A0: 1}, {A0: 1, A1: 1, TopicPartition("a", 2): 1}])
def test_all_partitions_must_be_named(named: dict[TopicPartition, int]) -> None:
    with pytest.raises(OptionsError, match="you must specify all TopicPartitions"):
        resolve(AtOffsets(named), LOG.keys(), Log(LOG), starting=True)
    with pytest.raises(OptionsError, match="you must specify all topics"):
        resolve(AtTimestamps(named), LOG.keys(), Log(LOG), starting=True)


def test_partitions_without_an_offset_begin_with_their_first_record() -> None:
    assert resolve(AtOffsets({A1: 9}, True), LOG.keys(), Log(LOG), starting=True) == {A0: LOG[A0][0], A1: 9}
    with pytest.raises(OptionsError, match="you must specify all TopicPartitions"):
        resolve(AtOffsets({A1: 9, TopicPartition("gone", 0): 1}, True), LOG.keys(), Log(LOG), starting=True)


def test_specific_offsets_ask_nothing() -> None:
    log = Log(LOG)
    resolve(AtOffsets({A0: 7, A1: 9}), LOG.keys(), log, starting=True)
    assert log.asked == []


def test_a_partition_that_vanishes_while_planning() -> None:
    with pytest.raises(OptionsError, match="a-1 does not exist, or was deleted"):
        resolve(AtEnd(LATEST), LOG.keys(), Log({A0: (0, 1)}), starting=True)


# ---------------------------------------------------------------------------------------------- ranges


class Losses:
    """Reports as they came."""

    def __init__(self) -> None:
        self.seen: list[Condition] = []
        self.details: list[str] = []

    def __call__(self, condition: Condition, detail: str) -> None:
        self.seen.append(condition)
        self.details.append(detail)


def planned(start: Offsets, end: Offsets, log: Log) -> tuple[list[OffsetRange], list[Condition]]:
    losses = Losses()
    return stream_ranges(Position(start), Position(end), log, losses), losses.seen


def test_new_partitions_begin_at_their_earliest() -> None:
    log = Log({A0: (0, 9), A1: (0, 9)})
    assert planned({A0: 4}, {A0: 9, A1: 7}, log) == ([OffsetRange(A0, 4, 9), OffsetRange(A1, 0, 7)], [])
    assert log.asked == [{A1: EARLIEST}]


@pytest.mark.parametrize(
    ("start", "end", "ranges", "conditions"),
    [
        ({A0: 4}, {A0: 9, A1: 7}, [OffsetRange(A0, 4, 9), OffsetRange(A1, 3, 7)], [Condition.ADDED_PARTITION]),
        (
            {A0: 4},
            {A0: 9, TopicPartition("z", 0): 7},
            [OffsetRange(A0, 4, 9)],
            [Condition.INITIAL_OFFSET_NOT_FOUND],
        ),
        ({A0: 4, A1: 3}, {A0: 9}, [OffsetRange(A0, 4, 9)], [Condition.PARTITIONS_DELETED]),
        ({A0: 4, A1: 8}, {A0: 9, A1: 7}, [OffsetRange(A0, 4, 9)], [Condition.OFFSET_CHANGED]),
        ({A0: 4}, {A0: 4}, [], []),
    ],
)
def test_losses_while_planning(
    start: Offsets, end: Offsets, ranges: list[OffsetRange], conditions: list[Condition]
) -> None:
    log = Log({A0: (0, 9), A1: (3, 9)})
    assert planned(start, end, log) == (ranges, conditions)
    if conditions:
        with pytest.raises(DataLossError, match=rf"\[KAFKA_DATA_LOSS\.{conditions[0].value}\]"):
            stream_ranges(Position(start), Position(end), log, reporter(True))
        assert stream_ranges(Position(start), Position(end), log, reporter(False)) == ranges


def test_a_topic_created_again_is_read_from_its_beginning() -> None:
    losses = Losses()
    start, end = Position({A0: 40, A1: 9}, {"a": "one"}), Position({A0: 50}, {"a": "two"})
    assert stream_ranges(start, end, Log({A0: (5, 50)}), losses) == [OffsetRange(A0, 5, 50)]
    assert losses.seen == [Condition.TOPIC_RECREATED]
    assert losses.details[0] == (
        "Topic a was deleted and created again. The deleted one was read up to (a-0: 40, a-1: 9), and what it held "
        "beyond is lost; the new one begins at (a-0: 5); 5 offsets [0, 5) of a-0 are lost."
    )


def test_losses_are_told_with_offsets_and_counts() -> None:
    losses = Losses()
    z = TopicPartition("z", 0)
    start, end = Position({A0: 9, z: 3}), Position({A0: 4, A1: 7, TopicPartition("y", 0): 2})
    assert stream_ranges(start, end, Log({A0: (0, 4), A1: (3, 9)}), losses) == [OffsetRange(A1, 3, 7)]
    assert losses.details == [
        "Cannot find the earliest offsets of Set(y-0), which were to be read up to (y-0: 2).",
        "Added partition a-1 starts from 3 instead of 0: 3 offsets [0, 3) of a-1 are lost.",
        "Set(z-0) are gone; they were read up to (z-0: 3).",
        "Partition a-0's offset was changed from 9 to 4, 5 offsets back.",
    ]


def test_a_new_partition_that_was_trimmed_beyond_what_was_planned() -> None:
    """Each lost offset is told once: those behind the batch's end by the next batch."""
    losses = Losses()
    assert stream_ranges(Position({}), Position({A0: 5, A1: 0}), Log({A0: (8, 9), A1: (2, 9)}), losses) == []
    assert losses.details == ["Added partition a-0 starts from 5 instead of 0: 5 offsets [0, 5) of a-0 are lost."]


def test_batch_ranges() -> None:
    assert batch_ranges({A1: 0, A0: 5}, {A0: 5, A1: 2}) == [OffsetRange(A1, 0, 2)]
    with pytest.raises(OptionsError, match="start offset 6 of a-0 lies beyond its end offset 5"):
        batch_ranges({A0: 6}, {A0: 5})


@given(RANGES, COUNTS, COUNTS)
def test_a_split_covers_the_same_offsets(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    pieces = split(ranges, min_partitions, max_records)
    assert all(piece.size > 0 for piece in pieces)
    joined: list[OffsetRange] = []
    for piece in pieces:
        if joined and joined[-1].tp == piece.tp:
            assert joined[-1].end == piece.start, "pieces of a partition stay beside each other, without holes"
            joined[-1] = OffsetRange(piece.tp, joined[-1].start, piece.end)
        else:
            joined.append(piece)
    assert joined == [part for part in ranges if part.size > 0]
    if max_records is not None:
        assert all(piece.size <= max_records for piece in pieces)


@given(RANGES, st.integers(1, 40))
def test_a_split_has_about_as_many_tasks_as_asked(ranges: list[OffsetRange], count: int) -> None:
    filled = [part for part in ranges if part.size > 0]
    pieces = split(ranges, count, None)
    if len(filled) >= count:
        assert pieces == filled
    else:
        assert len(pieces) <= count + len(filled)
        if all(part.size >= count for part in filled) and filled:
            assert len(pieces) >= count - len(filled)


@pytest.mark.parametrize(
    ("sizes", "count", "parts"),
    [
        # A small range keeps one task and leaves the rest to the big one (SPARK-36576).
        ([(A0, 100), (A1, 1)], 4, [33, 33, 34, 1]),
        ([(A0, 10), (A1, 10)], 4, [5, 5, 5, 5]),
        ([(A0, 7)], 3, [2, 2, 3]),
        ([(A0, 2)], 5, [1, 1]),
    ],
)
def test_splits_as_spark_makes_them(sizes: list[tuple[TopicPartition, int]], count: int, parts: list[int]) -> None:
    ranges = [OffsetRange(tp, 0, size) for tp, size in sizes]
    assert [piece.size for piece in split(ranges, count, None)] == parts


def test_records_per_partition_come_before_the_number_of_partitions() -> None:
    assert [piece.size for piece in split([OffsetRange(A0, 0, 10)], 2, 4)] == [3, 3, 4]
    assert [piece.size for piece in split([OffsetRange(A0, 0, 10)], 6, 5)] == [1, 2, 2, 1, 2, 2]


def test_a_warning_does_not_advise_what_is_set(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(DataLossError, match='set the source option "failOnDataLoss" to "false"'):
        reporter(True)(Condition.PARTITIONS_DELETED, "Some are gone.")
    reporter(False)(Condition.PARTITIONS_DELETED, "Some are gone.")
    (told,) = caplog.messages
    assert told.startswith("[KAFKA_DATA_LOSS.PARTITIONS_DELETED] Some are gone. ")
    assert told.endswith("The query goes on with what is left.")
    assert "failOnDataLoss" not in told
