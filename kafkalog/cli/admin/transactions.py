"""`kafkalog transactions`: list and describe transactions, and abort hanging ones, as kafka-transactions.sh does."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kafkalog.cli.shared.actions import add_command
from kafkalog.cli.shared.client_options import (
    UsageError,
    add_action,
    add_repeated,
    admin_config,
    aligned,
    complain,
    examples_of,
    integer,
    natural,
    print_json,
    reporting,
    whole,
)

if TYPE_CHECKING:
    from kafkalog.client.admin.transactions import TransactionsAdmin

EXAMPLES = """\
examples:
  kafkalog transactions list --bootstrap-server localhost:9092
  kafkalog transactions list --bootstrap-server localhost:9092 --duration-filter 60000 --json
  kafkalog transactions describe --bootstrap-server localhost:9092 --transactional-id orders-1
  kafkalog transactions describe-producers --bootstrap-server localhost:9092 --topic words --partition 0
  kafkalog transactions find-hanging --bootstrap-server localhost:9092 --topic words
  kafkalog transactions abort --bootstrap-server localhost:9092 --topic words --partition 0 --start-offset 42
"""
NONE = "None"
"""Shown in a column without a value."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `transactions` and its commands."""
    commands = add_command(
        subparsers, "transactions", "list, describe and abort transactions, find hanging ones", EXAMPLES
    )
    _add_list(commands)
    describe = _add(commands, "describe", "describe the transaction of a transactional id", run_describe)
    describe.add_argument("--transactional-id", required=True, metavar="ID")
    producers = _add(commands, "describe-producers", "describe who has written to a partition", run_producers)
    _add_partition(producers)
    producers.add_argument(
        "--broker-id", type=integer(0, 32), metavar="N", help="ask this replica instead of the leader"
    )
    _add_abort(commands)
    _add_find_hanging(commands)


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, purpose: str, run: Any
) -> argparse.ArgumentParser:
    parser = add_action(commands, name, purpose, examples_of(EXAMPLES, f"transactions {name}"))
    if name != "abort":
        parser.add_argument("--json", action="store_true", help="one object a line, in place of the table")
    parser.set_defaults(run=run)
    return parser


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="TOPIC")
    parser.add_argument("--partition", required=True, type=integer(0, 32), metavar="N")


def _add_list(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "list", "list transactional ids", run_list)
    parser.add_argument(
        "--duration-filter",
        type=whole,
        default=-1,
        metavar="MS",
        help="only transactions running for longer",
    )
    add_repeated(parser, "--state", metavar="STATE", purpose="only these, such as Ongoing")
    add_repeated(parser, "--producer-id", kind=natural, metavar="ID", purpose="only these")


def _add_abort(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "abort", "abort a hanging transaction in one partition", run_abort)
    _add_partition(parser)
    parser.add_argument("--start-offset", type=natural, metavar="N", help="where the transaction starts")
    older = parser.add_argument_group("in place of --start-offset, for brokers before Kafka 3.0")
    older.add_argument("--producer-id", type=natural, metavar="ID")
    older.add_argument("--producer-epoch", type=integer(0, 16), metavar="N")
    older.add_argument(
        "--coordinator-epoch", type=integer(-(1 << 31), 32), metavar="N", help="below 0 if the producer had no marker"
    )


def _add_find_hanging(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _add(commands, "find-hanging", "find transactions that no coordinator will end", run_find_hanging)
    parser.add_argument("--topic", metavar="TOPIC", help="the topic to search; this or --broker-id")
    parser.add_argument("--partition", type=integer(0, 32), metavar="N", help="one partition of the topic")
    parser.add_argument("--broker-id", type=integer(0, 32), metavar="N", help="search the replicas of this broker")
    parser.add_argument(
        "--max-transaction-timeout",
        type=natural,
        default=15,
        metavar="MINUTES",
        help="the brokers' transaction.max.timeout.ms (default: %(default)s); younger ones do not count as hanging",
    )


def _admin(arguments: argparse.Namespace) -> TransactionsAdmin:
    from kafkalog.client.admin.transactions import TransactionsAdmin

    return TransactionsAdmin(admin_config(arguments))


@reporting
def run_list(arguments: argparse.Namespace) -> int:
    """Print a row for each transactional id.

    A broker that does not answer does not hide the ids of the others, as it does in Kafka's tool. Return 1 then.
    """
    from kafkalog.client.outcomes import some_of

    with _admin(arguments) as admin:
        of_brokers = admin.list_transactions_each(
            states=arguments.state, producer_ids=arguments.producer_id, longer_than_ms=arguments.duration_filter
        )
    listed, errors = some_of(of_brokers)
    found = sorted(each for some in listed.values() for each in some)
    heads = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
    _show(arguments, heads, [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found])
    for node, error in errors.items():
        complain(
            f"transactional ids whose coordinator is broker {node} are not listed: {getattr(error, 'message', error)}"
        )
    return int(bool(errors))


@reporting
def run_describe(arguments: argparse.Namespace) -> int:
    """Print a row about one transactional id."""
    with _admin(arguments) as admin:
        found = admin.describe_transactions([arguments.transactional_id])[arguments.transactional_id]
    heads = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    start = found.start_time
    row = (
        found.coordinator,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        start,
        None if start is None else int(time.time() * 1000) - start,
        [str(tp) for tp in found.partitions],
    )
    _show(arguments, heads, [row])
    return 0


@reporting
def run_producers(arguments: argparse.Namespace) -> int:
    """Print a row for each producer that a partition knows."""
    from kafkalog.client.types import TopicPartition

    tp = TopicPartition(arguments.topic, arguments.partition)
    with _admin(arguments) as admin:
        found = admin.describe_producers([tp], broker_id=arguments.broker_id)[tp]
    heads = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            -1 if each.coordinator_epoch is None else each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.start_offset,
        )
        for each in found
    ]
    _show(arguments, heads, rows)
    return 0


@reporting
def run_abort(arguments: argparse.Namespace) -> int:
    """Abort one transaction; return 1 if it does not exist."""
    from kafkalog.client.types import TopicPartition

    tp = TopicPartition(arguments.topic, arguments.partition)
    identity = {
        name: getattr(arguments, name.strip("-").replace("-", "_"))
        for name in ("--producer-id", "--producer-epoch", "--coordinator-epoch")
    }
    if arguments.start_offset is None:
        missing = [name for name, value in identity.items() if value is None]
        if missing:
            raise UsageError(f"give --start-offset, or all of {', '.join(identity)}; {missing[0]} is missing")
    elif any(value is not None for value in identity.values()):
        raise UsageError(f"--start-offset takes the place of {', '.join(identity)}")
    with _admin(arguments) as admin:
        if arguments.start_offset is None:
            admin.abort_transaction(tp, *identity.values())
        else:
            try:
                admin.abort_transaction_at(tp, arguments.start_offset)
            except LookupError as error:
                complain(error.args[0])
                return 1
    print(f"The transaction is aborted in {tp}.")
    return 0


@reporting
def run_find_hanging(arguments: argparse.Namespace) -> int:
    """Print a row for each hanging transaction."""
    if arguments.topic is None and arguments.broker_id is None:
        raise UsageError("find-hanging needs --topic or --broker-id, to limit the search")
    if arguments.partition is not None and arguments.topic is None:
        raise UsageError("--partition needs --topic")
    now = int(time.time() * 1000)
    with _admin(arguments) as admin:
        found = admin.find_hanging(
            topic=arguments.topic,
            partition=arguments.partition,
            broker_id=arguments.broker_id,
            max_timeout_ms=arguments.max_transaction_timeout * 60_000,
            now_ms=now,
        )
    heads = (
        "Topic",
        "Partition",
        "ProducerId",
        "ProducerEpoch",
        "CoordinatorEpoch",
        "StartOffset",
        "LastTimestamp",
        "Duration(min)",
    )
    rows = []
    for (topic, partition), each in found:
        epoch = -1 if each.coordinator_epoch is None else each.coordinator_epoch
        minutes = (now - each.last_timestamp) // 60_000
        rows.append(
            (
                topic,
                partition,
                each.producer_id,
                each.producer_epoch,
                epoch,
                each.start_offset,
                each.last_timestamp,
                minutes,
            )
        )
    _show(arguments, heads, rows)
    return 0


def _show(arguments: argparse.Namespace, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows as a table, or each as an object whose keys are the headings with a lower-case first letter."""
    if arguments.json:
        for row in rows:
            print_json({_key(head): value for head, value in zip(heads, row, strict=True)})
        return
    texts = [list(heads), *([_text(value) for value in row] for row in rows)]
    for line in aligned(texts, [0] * len(heads), "\t"):
        print(line)


def _key(head: str) -> str:
    word, _, unit = head.partition("(")
    return word[0].lower() + word[1:] + ("Minutes" if unit else "")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return NONE if value is None else str(value)
