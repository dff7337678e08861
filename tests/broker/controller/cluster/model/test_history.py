"""Test that a controller remembers changes of partitions, and says which ones it has forgotten."""

from __future__ import annotations

from broker.controller.cluster.model.history import LONGEST_CAUSE, MOST_EXPLAINED, Change, History
from broker.metadata.znodes.topics import StateNode
from kafkalog.protocol.messages.update_metadata import UpdateMetadataChange

STATE = StateNode(leader=1, leader_epoch=0, controller_epoch=1, isr=(1, 2))


def change(number: int, *, created: bool = False, partition: int = 0, cause: str = "why") -> Change:
    return Change("t", partition, f"change {number}", cause, None if created else STATE, STATE)


def whats(history: History, epoch: int) -> list[str]:
    return [noted.what for noted in history.explain("t", 0, epoch).changes]


def test_everything_is_known_since_the_creation() -> None:
    history = History()
    history.begin(10, 1)
    assert history.explain("t", 0, 1).known_since_ms == 10
    history.add(20, [change(0, created=True), change(0, created=True, partition=1)])
    history.add(30, [change(1)])
    found = history.explain("t", 0, 1)
    assert (found.controller_epoch, found.controller_since_ms, found.known_since_ms) == (1, 10, -1)
    assert [(noted.at_ms, noted.what) for noted in found.changes] == [(20, "change 0"), (30, "change 1")]


def test_a_later_term_knows_the_former_one_but_not_what_was_between() -> None:
    history = History()
    history.begin(10, 1)
    history.add(20, [change(0, created=True)])
    history.begin(50, 3)
    history.add(60, [change(1)])
    found = history.explain("t", 0, 3)
    assert found.known_since_ms == 50
    assert [noted.controller_epoch for noted in found.changes] == [1, 3]


def told(*numbers: int, partitions: tuple[int, ...] = (0,)) -> list[UpdateMetadataChange]:
    return [
        UpdateMetadataChange(
            number=number, topic_name="t", partitions=list(partitions), what=f"change {number}", cause="told"
        )
        for number in numbers
    ]


def test_a_term_knows_what_other_controllers_have_told() -> None:
    history = History()
    history.learn(10, 2, told(1, 2))
    # The controller sends a request again if it has had no answer.
    history.learn(20, 2, told(2, 3, partitions=(0, 1)))
    # An old controller does not know yet that it is none.
    history.learn(30, 1, told(7))
    history.learn(40, 3, told(1))
    history.begin(50, 4)
    history.add(60, [change(9)])
    found = history.explain("t", 0, 4)
    assert [(each.at_ms, each.controller_epoch, each.what, each.cause) for each in found.changes] == [
        (10, 2, "change 1", "told"),
        (10, 2, "change 2", "told"),
        (20, 2, "change 3", "told"),
        (40, 3, "change 1", "told"),
        (60, 4, "change 9", "why"),
    ]
    assert [each.what for each in history.of("t", 1)] == ["change 3"]
    assert found.known_since_ms == 50, "what was decided last may have been told nobody"


def test_the_memory_is_bounded_and_what_was_dropped_is_told() -> None:
    history = History(kept=3)
    history.begin(10, 1)
    for number in range(5):
        history.add(100 + number, [change(number, created=number == 0, cause="x" * 5000)])
    found = history.explain("t", 0, 1)
    assert whats(history, 1) == ["change 2", "change 3", "change 4"]
    assert found.known_since_ms == 101
    assert {len(noted.cause) for noted in found.changes} == {LONGEST_CAUSE}


def test_of_one_partition_only_the_newest_changes_are_told() -> None:
    history = History()
    history.begin(10, 1)
    for number in range(MOST_EXPLAINED + 2):
        history.add(100 + number, [change(number, created=number == 0)])
    found = history.explain("t", 0, 1)
    assert (len(found.changes), found.known_since_ms) == (MOST_EXPLAINED, 102)
    assert found.changes[0].what == "change 2"
