"""Tests of the pure parts of the transactional mode: the ledger's record, transactional ids, options; and deadlines."""

from __future__ import annotations

import random
import secrets
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.cluster import Cluster
from spark_kafkalog.sink.sink_options import OptionsError, SinkOptions
from spark_kafkalog.sink.transactional.commit_driver import Driver
from spark_kafkalog.sink.transactional.errors import LedgerError
from spark_kafkalog.sink.transactional.ledger_record import (
    PIECE_CHARACTERS,
    Record,
    State,
    TaskTransaction,
    decode,
    encode,
)
from spark_kafkalog.sink.transactional.transaction_ends import open_transactions
from spark_kafkalog.sink.transactional.transactional_ids import Names, is_task_name, of_process
from tests.kafkalog.client.silent import SILENT_S, silent_broker

PREFIX = "orders"
SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}


def transactions(count: int, workers: int, seed: int = 1) -> tuple[TaskTransaction, ...]:
    """As a cluster has them: some workers, producer ids of several blocks of a thousand."""
    dice = random.Random(seed)
    tokens = [secrets.token_hex(6) for _ in range(workers)]
    return tuple(
        TaskTransaction(
            f"{PREFIX}-{tokens[number % workers]}-{number // workers}", dice.randrange(10**6), dice.randrange(0x7FFF)
        )
        for number in range(count)
    )


RECORDS = st.builds(
    Record,
    claim=st.integers(0, 2**53),
    state=st.sampled_from(State),
    query=st.text(max_size=40),
    batch=st.integers(-1, 2**40),
    transactions=st.lists(
        st.builds(TaskTransaction, st.text(max_size=20).map(PREFIX.__add__), st.integers(0, 2**63 - 1), st.just(3))
    ).map(tuple),
    number=st.integers(1, 2**31),
)


@given(RECORDS, st.integers(120, PIECE_CHARACTERS), st.randoms())
def test_a_record_survives_in_any_number_of_pieces(record: Record, characters: int, dice: random.Random) -> None:
    pieces = encode(record, PREFIX, 1000, characters)
    assert all(len(piece) <= characters and piece.isascii() for piece in pieces)
    dice.shuffle(pieces)
    assert decode(pieces, PREFIX) == record


@given(RECORDS, RECORDS)
def test_older_pieces_are_passed_over(first: Record, second: Record) -> None:
    newer = Record(**{**second.__dict__, "number": first.number + 1})
    old, new = (encode(each, PREFIX, 1000, 150) for each in (first, newer))
    assert decode([*new, *old[len(new) :]], PREFIX) == newer


def test_nothing_is_an_empty_record() -> None:
    assert decode([], PREFIX) == Record()


@pytest.mark.parametrize("text", ["", "committed by a consumer", "k1;1;0;1", "k1;1;0;1;no", "k1;x;0;1;", "k2;1;0;1;"])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(LedgerError):
        decode([text], PREFIX)


def test_a_missing_piece_is_told() -> None:
    pieces = encode(Record(transactions=transactions(50, 50), number=7), PREFIX, 1000, 200)
    with pytest.raises(LedgerError, match=rf"of writing 7 of the ledger there are {len(pieces) - 1} of {len(pieces)}"):
        decode(pieces[1:], PREFIX)


def test_room_for_tasks() -> None:
    """The documentation promises 150 tasks in one partition's metadata, 1,000 in eight partitions'."""
    assert len(encode(Record(transactions=transactions(150, 150)), PREFIX, 1)) == 1
    assert len(encode(Record(transactions=transactions(1000, 200)), PREFIX, 8)) > 1
    with pytest.raises(LedgerError, match="1000 tasks do not fit into the metadata of 2 partitions"):
        encode(Record(transactions=transactions(1000, 1000)), PREFIX, 2)


@given(st.lists(st.integers(0, 10**13), min_size=1))
def test_claims_grow_whatever_the_clock_does(clock: list[int]) -> None:
    record, numbers = Record(), [0]
    for now in clock:
        record = record.claimed(now)
        numbers.append(record.claim)
    assert numbers == sorted(set(numbers))
    assert (record.state, record.transactions, record.number) == (State.CLAIMED, (), len(clock))


def test_a_decision_of_a_batch_query_leaves_the_last_micro_batch_alone() -> None:
    stream = Record().claimed(1).decided([], "q", 7).ended(State.DONE)
    batch = stream.claimed(2).decided(transactions(1, 1), None, None)
    assert (batch.query, batch.batch, batch.state) == ("q", 7, State.DECIDED)


def test_an_id_is_used_once_in_a_claim_and_again_in_a_later_one() -> None:
    names = Names()
    first = [names.take(PREFIX, 1) for _ in range(3)]
    second = [names.take(PREFIX, 2) for _ in range(4)]
    assert len(set(first)) == 3
    assert set(first) < set(second)
    assert not set(second) & {names.take(PREFIX, 2), names.take("other", 3)}
    # A task of an earlier claim that comes late must not take what a later one may have used.
    assert names.take(PREFIX, 1) not in second


def test_ids_are_a_process_own() -> None:
    assert of_process() is of_process()
    assert Names().take(PREFIX, 1) != Names().take(PREFIX, 1)


def test_ids_are_told_from_those_of_others() -> None:
    assert is_task_name(PREFIX, Names().take(PREFIX, 1))
    for other in (f"{PREFIX}-driver", PREFIX, Names().take(f"{PREFIX}-2", 1), Names().take("order", 1), f"{PREFIX}--"):
        assert not is_task_name(PREFIX, other)


def test_options() -> None:
    assert SinkOptions.parse(SERVERS).once is None
    once = SinkOptions.parse({**SERVERS, "kafka.transactional.id": PREFIX}).once
    assert once is not None
    assert (once.prefix, once.ledger_topic, once.transaction_timeout, once.skip_lost) == (PREFIX, "t", 900.0, False)
    given = {"ledgerTopic": "l", "lostTransactions": "SKIP", "batchId": "7", "kafka.transaction.timeout.ms": "1000"}
    options = SinkOptions.parse({**SERVERS, "kafka.transactional.id": PREFIX, **given})
    assert options.once is not None
    assert (options.once.ledger_topic, options.once.transaction_timeout) == ("l", 1.0)
    assert options.once.skip_lost
    assert options.batch_id == 7
    columns = SinkOptions.parse({"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.transactional.id": PREFIX}).once
    assert columns is not None
    assert columns.ledger_topic == "__consumer_offsets"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kafka.transactional.id": "a", "kafka.acks": "1"}, "transactional.id needs acks=all"),
        ({"kafka.transactional.id": "a", "kafka.enable.idempotence": "false"}, "needs enable.idempotence=true"),
        ({"kafka.transactional.id": "a", "lostTransactions": "ignore"}, "'lostTransactions', should be 'fail' or"),
        ({"batchId": "1"}, "'batchId' needs 'kafka.transactional.id'"),
        ({"kafka.transactional.id": "a", "batchId": "-1"}, "'batchId', should be the number"),
    ],
)
def test_options_that_cannot_be(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        SinkOptions.parse({**SERVERS, **given})


@pytest.mark.timeout(SILENT_S / 2)
def test_looking_for_open_transactions_ends_at_the_deadline() -> None:
    with silent_broker() as config, Cluster(config) as cluster:
        assert open_transactions(cluster, "prefix", time.monotonic() + 0.5) == []


@pytest.mark.parametrize(
    ("timeout_ms", "max_block_ms", "allowed"),
    [(900_000, 60_000, 810), (900_000, 300_000, 600), (300_000, 60_000, 240), (60_000, 60_000, 30)],
)
def test_time_is_left_for_commits(timeout_ms: int, max_block_ms: int, allowed: float) -> None:
    given = {"kafka.transaction.timeout.ms": f"{timeout_ms}", "kafka.max.block.ms": f"{max_block_ms}"}
    once = SinkOptions.parse({**SERVERS, "kafka.transactional.id": PREFIX, **given}).once
    assert once is not None
    assert Driver(once).allowed == allowed
