"""Test that the state machine of a transactional producer has the transitions of Java's TransactionManager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer.transactions.transaction_manager import State, TransactionManager, TransactionStateError
from kafkalog.client.transactions.errors import (
    AbortableTransactionError,
    FatalTransactionError,
    FencedError,
    Operation,
    TransactionError,
    transaction_error,
)
from kafkalog.client.transactions.requests import ProducerIdentity
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, MessageTooLargeError, error_for

TP = TopicPartition("t", 0)

CALLS: dict[str, Callable[[TransactionManager], None]] = {
    "init": TransactionManager.begin_init,
    "begin": TransactionManager.begin,
    "commit": TransactionManager.begin_commit,
    "abort": TransactionManager.begin_abort,
    "detach": TransactionManager.detach,
    "send": TransactionManager.check_send,
    "offsets": TransactionManager.check_offsets,
}
ALLOWED = {
    State.UNINITIALIZED: {"init"},
    State.INITIALIZING: {"init"},
    State.READY: {"begin"},
    State.IN_TRANSACTION: {"commit", "abort", "detach", "send", "offsets"},
    State.COMMITTING: {"commit"},
    State.ABORTING: {"abort"},
    State.ABORTABLE_ERROR: {"abort"},
    State.FATAL_ERROR: set(),
    State.DETACHED: set(),
}
"""The calls that each state allows. A call that ran out of time is the only one that may be made then."""


def errors(operation: Operation = Operation.ADD_OFFSETS) -> st.SearchStrategy[TransactionError]:
    codes = [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE]
    codes += [ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.GROUP_AUTHORIZATION_FAILED]
    return st.sampled_from([transaction_error(operation, error_for(code), "x") for code in codes])


class Machine(RuleBasedStateMachine):
    """Calls and failures in any order, beside what the table allows."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = TransactionManager("x")
        self.began = False
        self.unsure = False
        self.dead = False

    @rule(call=st.sampled_from(sorted(CALLS)))
    def make(self, call: str) -> None:
        before = self.machine.state
        if call in ALLOWED[before]:
            CALLS[call](self.machine)
            return
        expected: type[Exception] = TransactionStateError
        if before is State.ABORTABLE_ERROR:
            expected = AbortableTransactionError
        elif before is State.FATAL_ERROR:
            expected = FatalTransactionError
        with pytest.raises(expected):
            CALLS[call](self.machine)
        assert self.machine.state is before

    @precondition(lambda self: self.machine.state is State.INITIALIZING)
    @rule()
    def get_id(self) -> None:
        self.machine.initialized(ProducerIdentity(4, 0))

    @precondition(lambda self: self.machine.state in (State.IN_TRANSACTION, State.COMMITTING))
    @rule()
    def add(self) -> None:
        self.machine.added([TP])
        self.began = True

    @rule(error=errors())
    def fail(self, error: TransactionError) -> None:
        before = self.machine.state
        self.machine.fail(error)
        if isinstance(error, FatalTransactionError):
            self.dead = True
        elif before in (State.IN_TRANSACTION, State.COMMITTING, State.DETACHED):
            assert self.machine.state is State.ABORTABLE_ERROR
        else:
            assert self.machine.state is before

    @precondition(lambda self: self.machine.state in (State.IN_TRANSACTION, State.COMMITTING, State.ABORTING))
    @rule(code=st.sampled_from([ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_PRODUCER_EPOCH]))
    def lose_a_batch(self, code: ErrorCode) -> None:
        self.machine.fail(error_for(code), batch=True)
        self.unsure = True
        assert self.machine.state in (State.ABORTABLE_ERROR, State.ABORTING)

    @precondition(lambda self: self.machine.state in (State.COMMITTING, State.ABORTING))
    @rule()
    def end(self) -> None:
        assert self.machine.state is State.ABORTING or not self.unsure, "a lost batch is never committed"
        assert self.machine.must_raise_epoch >= self.unsure
        if self.machine.must_raise_epoch:
            present = self.machine.identity
            self.machine.ended(ProducerIdentity(present.producer_id, present.producer_epoch + 1))
            assert self.machine.identity.producer_epoch == present.producer_epoch + 1
        else:
            self.machine.ended()
        assert self.machine.state is State.READY
        assert not self.machine.must_end
        self.began = self.unsure = False

    @invariant()
    def errors_are_told(self) -> None:
        machine = self.machine
        assert machine.doomed == (machine.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR))
        assert not machine.doomed or machine.error is not None
        assert (machine.state is State.FATAL_ERROR) == self.dead, "nothing leads out of a fatal error"
        if machine.open and machine.error is None:
            assert machine.must_end == self.began


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=30)


def in_transaction() -> TransactionManager:
    machine = TransactionManager("x")
    machine.begin_init()
    machine.initialized(ProducerIdentity(4, 0))
    machine.begin()
    return machine


def test_nothing_sent_nothing_to_end() -> None:
    machine = in_transaction()
    machine.begin_commit()
    assert not machine.must_end
    machine.ended()
    machine.begin()
    machine.offsets_added()
    machine.begin_abort()
    assert machine.must_end


def test_a_lost_answer_counts_as_begun() -> None:
    machine = in_transaction()
    machine.doubt()
    machine.begin_abort()
    assert machine.must_end
    assert not machine.began


def test_what_has_ended_is_not_ended_again() -> None:
    machine = in_transaction()
    machine.added([TP])
    machine.fail(error_for(ErrorCode.MESSAGE_TOO_LARGE), batch=True)
    machine.begin_abort()
    machine.end_answered()
    machine.doubt()
    machine.begin_abort()
    assert not machine.must_end
    assert machine.must_raise_epoch
    machine.ended(ProducerIdentity(4, 1))
    machine.begin()
    machine.added([TP])
    assert machine.must_end


def test_the_first_error_is_the_one_told() -> None:
    machine = in_transaction()
    machine.fail(MessageTooLargeError("too large"))
    machine.fail(ClientTimeoutError("late"))
    with pytest.raises(AbortableTransactionError, match=r"cannot send.*too large"):
        machine.check_send()
    machine.fail(transaction_error(Operation.END, error_for(ErrorCode.INVALID_PRODUCER_EPOCH), "x"))
    with pytest.raises(FencedError, match=r"cannot abort transaction.*newer producer") as fenced:
        machine.begin_abort()
    assert fenced.value.code == ErrorCode.PRODUCER_FENCED


def test_a_lost_producer_id_is_not_ended_but_replaced() -> None:
    machine = in_transaction()
    machine.added([TP])
    machine.fail(transaction_error(Operation.ADD_PARTITIONS, error_for(ErrorCode.INVALID_PRODUCER_ID_MAPPING), "x"))
    machine.begin_abort()
    assert not machine.must_end
    assert machine.must_raise_epoch


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.PRODUCER_FENCED, FencedError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, AbortableTransactionError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, AbortableTransactionError),
    ],
)
def test_what_a_leader_refuses(code: ErrorCode, kind: type[TransactionError]) -> None:
    machine = in_transaction()
    machine.fail(error_for(code), batch=True)
    assert type(machine.error) is kind
    assert machine.state is (State.ABORTABLE_ERROR if kind is AbortableTransactionError else State.FATAL_ERROR)


def test_what_others_are_in_the_middle_of() -> None:
    machine = in_transaction()
    machine.begin_commit()
    with pytest.raises(TransactionStateError, match="abort_transaction while commit_transaction has not ended"):
        machine.begin_abort()
    with pytest.raises(TransactionStateError, match="cannot send in state COMMITTING_TRANSACTION"):
        machine.check_send()


def test_offsets_that_ran_out_of_time_are_sent_again_or_the_transaction_is_aborted() -> None:
    """A commit would be one of records without the offsets that they came from."""
    machine = in_transaction()
    other = TopicPartition("t", 1)
    machine.doubt_offsets("g", [TP, other])
    for call in (machine.begin_commit, machine.detach):
        with pytest.raises(TransactionStateError, match="offsets of g did not end"):
            call()
    assert machine.state is State.IN_TRANSACTION
    for group, partitions in (("another", [TP, other]), ("g", [TP])):
        machine.offsets_settled(group, partitions)
        with pytest.raises(TransactionStateError):
            machine.begin_commit()
    machine.offsets_settled("g", [other])
    machine.begin_commit()
    machine.ended()
    machine.begin()
    machine.doubt_offsets("g", [TP])
    machine.begin_abort()
    machine.ended()
    machine.begin()
    machine.begin_commit()


def test_what_was_left_to_another_may_come_back() -> None:
    machine = in_transaction()
    machine.detach()
    assert not machine.open
    machine.reattach()
    assert machine.state is State.IN_TRANSACTION
