"""Tests of the state machine of one transactional id: transitions, epochs, refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.coordinator.transaction.machine import (
    EXHAUSTED_EPOCH,
    LARGEST_EPOCH,
    Producer,
    Transaction,
    TransactionMachine,
    TransactionState,
)
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
    TransactionAbortableError,
)

NOW = 1_700_000_000_000
TIMEOUT = 60_000
A, B = ("a", 0), ("b", 3)


def machine(
    state: TransactionState = TransactionState.EMPTY, *, epoch: int = 4, **fields: object
) -> TransactionMachine:
    open_ = state not in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    current = Transaction(7, epoch, TIMEOUT, state, NOW, frozenset({A}) if open_ else frozenset(), NOW if open_ else -1)
    return TransactionMachine("id", replace(current, **fields))  # type: ignore[arg-type]


def init(of: TransactionMachine, expected: Producer | None = None, fresh_id: int = -1) -> Producer:
    """InitProducerId that is stored."""
    of.stored(of.init(TIMEOUT, expected, fresh_id, NOW))
    return of.producer


def test_a_new_id_begins_at_epoch_0() -> None:
    new = TransactionMachine.new("id", 7, TIMEOUT, NOW)
    assert init(new) == (7, 0)
    assert new.current.state is TransactionState.EMPTY
    # Each session after it has a greater one.
    assert init(new) == (7, 1)


def test_nobody_writes_under_an_epoch_that_was_not_stored_yet() -> None:
    new = TransactionMachine.new("id", 7, TIMEOUT, NOW)
    with pytest.raises(ProducerFencedError):
        new.add(Producer(7, -1), [A], NOW)


def test_a_transaction_from_its_first_partition_to_its_end() -> None:
    one = machine()
    begun = one.add(one.producer, [A], NOW + 1)
    assert begun.started_ms == NOW + 1
    one.stored(begun)
    more = one.add(one.producer, [A, B], NOW + 2)
    assert (more.started_ms, more.partitions) == (NOW + 1, frozenset({A, B}))
    one.stored(more)
    again = one.add(one.producer, [B], NOW + 3)
    assert again == replace(more, updated_ms=NOW + 3)
    one.stored(again)
    decided = one.end(one.producer, committed=True, now_ms=NOW + 4)
    one.stored(decided)
    assert one.unmarked == {A, B}
    complete = one.complete(NOW + 5)
    one.stored(complete)
    assert (one.current.state, one.current.partitions) == (TransactionState.COMPLETE_COMMIT, frozenset())
    # Asked again, it has ended as wanted, or it has not.
    again = one.end(one.producer, committed=True, now_ms=NOW + 8)
    assert again == replace(one.current, updated_ms=NOW + 8)
    one.stored(again)
    with pytest.raises(InvalidTxnStateError):
        one.end(one.producer, committed=False, now_ms=NOW)
    following = one.add(one.producer, [B], NOW + 9)
    assert (following.started_ms, following.partitions) == (NOW + 9, frozenset({B}))


def test_nothing_happens_twice_at_a_time() -> None:
    one = machine(TransactionState.ONGOING)
    one.end(one.producer, committed=True, now_ms=NOW)
    with pytest.raises(ConcurrentTransactionsError):
        one.end(one.producer, committed=True, now_ms=NOW)
    with pytest.raises(ConcurrentTransactionsError):
        one.add(one.producer, [B], NOW)
    with pytest.raises(ConcurrentTransactionsError):
        one.init(TIMEOUT, None, -1, NOW)
    one.failed()
    assert one.current.state is TransactionState.ONGOING
    assert one.add(one.producer, [B], NOW).partitions == {A, B}


@pytest.mark.parametrize("state", [TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT])
def test_a_decision_is_waited_for(state: TransactionState) -> None:
    one = machine(state)
    assert one.unmarked == {A}
    with pytest.raises(ConcurrentTransactionsError):
        one.add(one.producer, [B], NOW)
    with pytest.raises(ConcurrentTransactionsError):
        one.init(TIMEOUT, None, -1, NOW)
    with pytest.raises(ConcurrentTransactionsError):
        one.verify(one.producer, A)
    for committed in (True, False):
        with pytest.raises(ConcurrentTransactionsError):
            one.end(one.producer, committed=committed, now_ms=NOW)


def test_who_asks_is_checked() -> None:
    one = machine(TransactionState.ONGOING)
    with pytest.raises(InvalidProducerIdMappingError):
        one.add(Producer(8, 4), [A], NOW)
    for epoch in (3, 5):
        with pytest.raises(ProducerFencedError):
            one.end(Producer(7, epoch), committed=True, now_ms=NOW)
    with pytest.raises(InvalidTxnStateError):
        machine().end(Producer(7, 4), committed=False, now_ms=NOW)


def test_verification() -> None:
    one = machine(TransactionState.ONGOING)
    one.verify(one.producer, A)
    with pytest.raises(TransactionAbortableError):
        one.verify(one.producer, B)
    with pytest.raises(InvalidProducerIdMappingError):
        one.verify(Producer(8, 4), A)
    with pytest.raises(InvalidProducerEpochError):
        one.verify(Producer(7, 3), A)
    with pytest.raises(TransactionAbortableError):
        machine(TransactionState.COMPLETE_COMMIT).verify(Producer(7, 4), A)


# -- epochs (KIP-360)


def test_an_epoch_is_raised_for_the_producer_that_has_it() -> None:
    one = machine()
    assert init(one, Producer(7, 4)) == (7, 5)
    # The answer was lost, and the producer asks again: the same answer, as often as it likes.
    assert init(one, Producer(7, 4)) == (7, 5)
    assert init(one, Producer(7, 4)) == (7, 5)
    assert init(one, Producer(7, 5)) == (7, 6)
    with pytest.raises(ProducerFencedError):
        one.init(TIMEOUT, Producer(7, 4), -1, NOW)


def test_a_new_session_fences_the_producer_that_wants_its_epoch_raised() -> None:
    one = machine()
    assert init(one) == (7, 5)
    with pytest.raises(ProducerFencedError):
        one.init(TIMEOUT, Producer(7, 4), -1, NOW)
    with pytest.raises(ProducerFencedError):
        one.init(TIMEOUT, Producer(6, 5), -1, NOW)


def test_a_fenced_producer_does_not_end_the_transaction_of_another() -> None:
    one = machine(TransactionState.ONGOING)
    with pytest.raises(ProducerFencedError):
        one.init(TIMEOUT, Producer(7, 3), -1, NOW)
    assert (one.pending, one.producer) == (None, (7, 4))


def test_used_up_epochs_take_a_new_producer_id() -> None:
    one = machine(epoch=EXHAUSTED_EPOCH)
    assert one.needs_producer_id(None)
    assert init(one, fresh_id=9) == (9, 0)
    two = machine(epoch=EXHAUSTED_EPOCH)
    assert two.needs_producer_id(Producer(7, EXHAUSTED_EPOCH))
    assert init(two, Producer(7, EXHAUSTED_EPOCH), fresh_id=9) == (9, 0)
    for _ in range(2):
        assert not two.needs_producer_id(Producer(7, EXHAUSTED_EPOCH))
        assert init(two, Producer(7, EXHAUSTED_EPOCH)) == (9, 0)
    with pytest.raises(ProducerFencedError):
        two.init(TIMEOUT, Producer(7, EXHAUSTED_EPOCH - 1), -1, NOW)


def test_the_last_epoch_is_given_again_to_who_lost_the_answer() -> None:
    one = machine(epoch=EXHAUSTED_EPOCH - 1)
    before = one.producer
    assert init(one, before) == (7, EXHAUSTED_EPOCH)
    assert not one.needs_producer_id(before)
    assert init(one, before) == (7, EXHAUSTED_EPOCH)


# -- fencing


def test_a_new_session_aborts_what_is_ongoing() -> None:
    one = machine(TransactionState.ONGOING)
    change = one.init(TIMEOUT, None, -1, NOW)
    assert (change.state, change.producer_epoch) == (TransactionState.PREPARE_ABORT, 5)
    # From now on, not only once it is stored.
    with pytest.raises(ProducerFencedError):
        one.end(Producer(7, 4), committed=True, now_ms=NOW)
    one.stored(change)
    one.stored(one.complete(NOW))
    assert one.current.state is TransactionState.COMPLETE_ABORT
    # The epoch in between is given to nobody.
    assert init(one) == (7, 6)


def test_a_fence_that_could_not_be_stored_takes_one_epoch() -> None:
    one = machine(TransactionState.ONGOING, epoch=EXHAUSTED_EPOCH)
    for _ in range(3):
        assert one.init(TIMEOUT, None, -1, NOW).producer_epoch == LARGEST_EPOCH
        one.failed()
    change = one.fence(NOW)
    one.stored(change)
    one.stored(one.complete(NOW))
    assert one.needs_producer_id(None)
    assert init(one, fresh_id=9) == (9, 0)


# -- time


def test_time_out() -> None:
    one = machine(TransactionState.ONGOING)
    assert not one.has_timed_out(NOW + TIMEOUT)
    assert one.has_timed_out(NOW + TIMEOUT + 1)
    one.end(one.producer, committed=True, now_ms=NOW)
    assert not one.has_timed_out(NOW + TIMEOUT + 1)
    for state in (TransactionState.EMPTY, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_ABORT):
        assert not machine(state).has_timed_out(NOW + 10 * TIMEOUT)


@pytest.mark.parametrize("state", list(TransactionState)[:6])
def test_expiry(state: TransactionState) -> None:
    one = machine(state)
    assert not one.has_expired(NOW + 999, 1000)
    at_rest = state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
    assert one.has_expired(NOW + 1000, 1000) == at_rest


def test_titles_are_those_of_kafka() -> None:
    assert [state.title for state in TransactionState] == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
        "PrepareEpochFence",
    ]  # fmt: skip
