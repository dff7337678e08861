"""Tests of a move's next step, and of a start's decisions about leftovers, as pure values."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.log.alter_dirs.plan import (
    NEARLY_THERE_BYTES,
    TAIL_BYTES,
    TAIL_FILES,
    Copied,
    Copy,
    Extent,
    Found,
    Round,
    Step,
    next_step,
    plan,
    reached,
    settle,
)


def test_files_are_copied_in_order_and_only_what_is_lacking() -> None:
    wanted = {"a": Extent(100, 1), "b": Extent(100, 1), "c": Extent(None, 1), "d": Extent(None, 1), "e": Extent(0, 1)}
    assert plan(wanted, {}) == Round(
        [Copy("a", 0, 100), Copy("b", 0, 100), Copy("c", 0, None), Copy("d", 0, None), Copy("e", 0, 0)], []
    )
    have = {"a": Copied(40, 1), "b": Copied(100, 1), "c": Copied(7, 1), "d": Copied(9, 1, True), "x": Copied(1, 1)}
    assert plan(wanted, have) == Round([Copy("a", 40, 100), Copy("c", 7, None), Copy("e", 0, 0)], ["x"])


def test_a_file_that_is_another_now_is_copied_from_its_beginning() -> None:
    wanted = {"a": Extent(100, 2), "b": Extent(10, 1), "c": Extent(None, 2)}
    have = {"a": Copied(40, 1), "b": Copied(20, 1), "c": Copied(5, 1, True)}
    assert plan(wanted, have).copies == [Copy("a", 0, 100), Copy("b", 0, 10), Copy("c", 0, None)]


def test_reserved_space_is_given_back_when_the_log_gives_it_back() -> None:
    assert plan({"a": Extent(8, 1, 96)}, {"a": Copied(8, 1, False, 96)}).is_empty
    assert plan({"a": Extent(8, 1)}, {"a": Copied(8, 1, False, 96)}).copies == [Copy("a", 8, 8)]


@pytest.mark.parametrize(
    ("round_", "begun", "settled", "step"),
    [
        (Round([], []), False, False, Step.COPY),
        (Round([], []), True, False, Step.SETTLE),
        (Round([Copy("a", 5, 5 + NEARLY_THERE_BYTES)], []), True, False, Step.SETTLE),
        (Round([Copy("a", 5, 6 + NEARLY_THERE_BYTES)], []), True, False, Step.COPY),
        (Round([Copy(str(n), 0, None) for n in range(1000)], []), True, False, Step.COPY),
        (Round([], []), True, True, Step.SWAP),
        (Round([Copy("a", 5, 5 + TAIL_BYTES)], []), True, True, Step.SWAP),
        (Round([Copy("a", 5, 6 + TAIL_BYTES)], []), True, True, Step.CATCH_UP),
        (Round([], ["a"]), True, True, Step.CATCH_UP),
        (Round([Copy(str(n), 0, 1) for n in range(TAIL_FILES + 1)], []), True, True, Step.CATCH_UP),
    ],
)
def test_steps(round_: Round, begun: bool, settled: bool, step: Step) -> None:
    assert next_step(round_, begun=begun, settled=settled) is step


def test_how_far_the_copy_is() -> None:
    first, second = "00000000000000000000.log", "00000000000000000010.log"
    wanted = {"00000000000000000000.index": Extent(8, 1), first: Extent(100, 1), second: Extent(50, 2)}
    assert reached(wanted, {}, 17) == 0
    assert reached(wanted, {first: Copied(99, 1)}, 17) == 0
    assert reached(wanted, {first: Copied(100, 1)}, 17) == 10
    assert reached(wanted, {first: Copied(100, 1), second: Copied(50, 2)}, 17) == 17


# -- a model of files that grow, are replaced and removed, and of a copy that follows -------------------------------


@dataclass
class Model:
    """Files by name: a stamp and content. The copy has what rounds gave it."""

    files: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    copy: dict[str, bytes] = field(default_factory=dict)
    have: dict[str, Copied] = field(default_factory=dict)

    def wanted(self, whole: set[str]) -> dict[str, Extent]:
        return {name: Extent(None if name in whole else len(data), stamp) for name, (stamp, data) in self.files.items()}

    def apply(self, whole: set[str], limit: int) -> None:
        """A round, which may end in the middle."""
        wanted = self.wanted(whole)
        round_ = plan(wanted, self.have)
        for name in round_.removals:
            del self.copy[name], self.have[name]
        for name, start, end in round_.copies[:limit]:
            stamp, data = self.files[name]
            self.copy[name] = self.copy.get(name, b"")[:start] + data[start:end]
            self.have[name] = Copied(len(self.copy[name]), stamp, end is None)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["grow", "replace", "remove", "round"]), st.sampled_from("abc"),
        st.binary(min_size=1, max_size=3), st.sets(st.sampled_from("bc")), st.integers(0, 3),
    ),
    max_size=30,
)  # fmt: skip


@given(CHANGES)
def test_whatever_happens_a_round_makes_the_copy_what_the_log_is(
    changes: list[tuple[str, str, bytes, set[str], int]],
) -> None:
    model, stamps = Model(), 0
    for change, name, data, whole, limit in changes:
        stamp, before = model.files.get(name, (stamps, b""))
        # A file of unknown length changes with its stamp alone.
        if change == "grow" and name == "a":
            model.files[name] = (stamp, before + data)
        elif change in ("grow", "replace"):
            stamps += 1
            model.files[name] = (stamps, data)
        elif change == "remove":
            model.files.pop(name, None)
            stamps += 1
        else:
            model.apply(whole, limit)
    model.apply(set(), 100)
    assert model.copy == {name: data for name, (_, data) in model.files.items()}
    assert plan(model.wanted(set()), model.have).is_empty


# -- what a start finds ----------------------------------------------------------------------------------------


def log(log_dir: str, moved_from: str | None = None) -> Found:
    return Found(log_dir, "t-0", False, moved_from)


def copy(log_dir: str, moved_from: str | None = None) -> Found:
    return Found(log_dir, "t-0.00000000000000000000000000000000-future", True, moved_from)


def test_a_move_under_way_goes_on() -> None:
    for future in (copy("two"), copy("two", "one")):
        result = settle([log("one"), future], ())
        assert (result.serve, result.promote, result.discard, result.resume) == ([log("one")], None, [], future)


def test_a_complete_copy_without_its_log_is_the_log() -> None:
    result = settle([copy("two", "one")], ())
    assert (result.serve, result.promote, result.discard, result.resume) == ([], copy("two", "one"), [], None)
    assert settle([copy("two", "one"), copy("three")], ()).discard == [copy("three")]


def test_a_copy_whose_log_may_be_in_a_directory_that_cannot_be_read_waits() -> None:
    result = settle([copy("two", "one")], ("one",))
    assert (result.serve, result.promote, result.discard, result.resume) == ([], None, [], copy("two", "one"))
    assert settle([copy("two", "one")], ("three",)).promote is not None


def test_an_incomplete_copy_is_never_the_log() -> None:
    result = settle([copy("two")], ())
    assert (result.serve, result.promote, result.resume) == ([], None, copy("two"))


def test_of_two_logs_the_one_that_was_moved_from_the_other_is_the_log() -> None:
    for found in ([log("one"), log("two", "one")], [log("two", "one"), log("one")]):
        result = settle(found, ())
        assert (result.serve, result.discard) == ([log("two", "one")], [log("one")])


def test_two_logs_of_which_nobody_knows_are_both_told() -> None:
    for found in ([log("one"), log("two")], [log("one"), log("two", "three")], [log("one", "two"), log("two", "one")]):
        assert settle(found, ()).serve == found


FOUND = st.builds(
    Found, st.sampled_from(["one", "two", "three"]), st.just("t-0"), st.booleans(),
    st.none() | st.sampled_from(["one", "two", "three"]),
)  # fmt: skip


@given(st.lists(FOUND, min_size=1, max_size=4), st.sets(st.sampled_from(["one", "two", "three"])))
def test_every_directory_has_one_fate(found: list[Found], offline: set[str]) -> None:
    result = settle(found, offline)
    fates = [*result.serve, *result.discard, *filter(None, [result.promote, result.resume])]
    assert sorted(fates, key=repr) == sorted(found, key=repr)
    assert not (result.serve and result.promote)
    assert bool(result.serve) == any(not each.is_future for each in found)
