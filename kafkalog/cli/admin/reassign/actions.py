"""The actions of `kafkalog reassign`. What they print is what Kafka's tool prints, and how far the moves are."""

from __future__ import annotations

import argparse
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from kafkalog.cli.admin.partition_files import (
    ANY_DIRECTORY,
    Placed,
    parse_reassignment,
    parse_topics,
    read_file,
    reassignment_json,
)
from kafkalog.cli.admin.reassign import progress, throttles
from kafkalog.cli.admin.reassign.directories import DirectoryMove, directory_moves, moving
from kafkalog.cli.admin.reassign.proposal import proposed
from kafkalog.cli.admin.reassign.waits import waits
from kafkalog.cli.shared.client_options import UsageError, admin_config, complain, reporting
from kafkalog.cli.shared.ids import parse_ids
from kafkalog.client.admin import Admin
from kafkalog.client.admin.replicas.replica_admin import Reassignment, ReplicaOnBroker
from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    KafkaError,
    NoReassignmentInProgressError,
    ReplicaNotAvailableError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

EXPLAINED = 20
"""The number of partitions of which `verify` tells what they wait for."""
FOLLOW_S = 1.0
"""Between two looks at how far the moves are."""
DIRECTORIES_S = 10.0
"""The longest wait for new replicas that are to be put into other log directories."""
NOT_THERE = (ReplicaNotAvailableError, UnknownTopicOrPartitionError)
"""Errors of a broker that does not have a replica, and may get it."""

Wanted = Mapping[TopicPartition, Placed]
Replicas = dict[TopicPartition, tuple[int, ...]]


@reporting
def run_generate(arguments: argparse.Namespace) -> int:
    """Print the present placement, and one on the brokers of the list."""
    brokers = parse_ids(
        arguments.broker_list.split(","), f"--broker-list {arguments.broker_list}: expected broker ids, as in 1,2,3"
    )
    if len(set(brokers)) < len(brokers):
        raise UsageError(f"--broker-list {arguments.broker_list}: a broker is named twice")
    option = "--topics-to-move-json-file"
    file = arguments.topics_to_move_json_file
    topics = arguments.topic or parse_topics(read_file(file, option), f"{option} {file}")
    with Admin(admin_config(arguments)) as admin:
        current = _placements(admin, topics)
        racks = {node.node_id: node.rack for node in admin.describe_cluster().brokers.values()}
    unknown = sorted(set(brokers) - set(racks))
    if unknown:
        raise UsageError(f"--broker-list: the brokers {', '.join(map(str, unknown))} are not alive")
    try:
        made = proposed(current, brokers, {} if arguments.disable_rack_aware else racks)
    except ValueError as error:
        raise UsageError(f"--broker-list: {error}") from None
    print(f"Current partition replica assignment\n{reassignment_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{reassignment_json(made)}")
    return 0


@reporting
def run_execute(arguments: argparse.Namespace) -> int:
    """Begin the reassignments of the file."""
    wanted = _wanted(arguments)
    with Admin(admin_config(arguments)) as admin:
        current = _placements(admin, {tp.topic for tp in wanted})
        missing = sorted(tp for tp in wanted if tp not in current)
        if missing:
            raise UnknownTopicOrPartitionError(f"There is no partition {missing[0]}")
        going = admin.replicas.list_partition_reassignments()
        if going and not arguments.additional:
            complain(
                "Cannot execute because there is an existing partition assignment. Use --additional to override this "
                "and create a new partition assignment in addition to the existing one. The --additional flag can also "
                "be used to change the throttle by resubmitting the current reassignment"
            )
            return 1
        alive = set(admin.describe_cluster().brokers)
        before = {tp: current[tp] for tp in wanted}
        print(f"Current partition replica assignment\n\n{reassignment_json(before)}\n")
        print("Save this to use as the --reassignment-json-file option during rollback", flush=True)
        with _throttled(admin, arguments, wanted, before, alive) as earlier:
            directories = _directories(wanted)
            absent, refused = _ask_for_directories(admin, directories, alive)
            replicas = {tp: placed.replicas for tp, placed in wanted.items()}
            outcomes = admin.replicas.alter_partition_reassignments(replicas)
            failed = _told_errors(outcomes, "Error reassigning partition(s)")
            begun = [tp for tp, error in sorted(outcomes.items()) if error is None]
            if begun:
                names = ",".join(map(str, begun))
                print(f"Successfully started partition reassignment{_s(begun)} for {names}", flush=True)
            _tell_moves({each: directories[each] for each in directories if each not in absent and each not in refused})
            unplaced = _place_in_directories(admin, {each: absent[each] for each in absent if each.partition in begun})
            if arguments.follow:
                _follow(
                    admin, begun, {replica: path for replica, path in directories.items() if replica.broker in alive}
                )
        if earlier and not begun:
            _restore_or_tell(admin, arguments, earlier)
        elif earlier and arguments.follow:
            _clear_if_idle(admin, wanted)
    return 1 if failed or refused or unplaced else 0


@reporting
def run_verify(arguments: argparse.Namespace) -> int:
    """Say of each partition and directory of the file how far it is; remove the throttles once all are done."""
    wanted = _wanted(arguments)
    with Admin(admin_config(arguments)) as admin:
        if arguments.follow:
            _follow(admin, wanted, _directories(wanted))
        going = admin.replicas.list_partition_reassignments(wanted)
        current = _placements(admin, {tp.topic for tp in wanted}, may_be_gone=True)
        print("Status of partition reassignment:")
        told = _waits(admin, going)
        for tp, placed in sorted(wanted.items()):
            print(_status(tp, placed.replicas, going.get(tp), current.get(tp)))
            for line in told.get(tp, ()):
                print(f"  {line}")
        moves = _directory_moves(admin, _directories(wanted))
        for move in moves:
            print(move.told)
        if going:
            print(f"\n{_progress(admin, going)}")
        elif not arguments.preserve_throttles:
            _clear_if_idle(admin, wanted)
    # As Kafka's tool: what is still going on is no failure.
    done = all(tp in current and current[tp] == placed.replicas for tp, placed in wanted.items())
    done = done and all(move.is_done for move in moves)
    return 0 if done or going or any(move.is_active for move in moves) else 1


@reporting
def run_cancel(arguments: argparse.Namespace) -> int:
    """Cancel the reassignments of the file's partitions that are going on, and the moves between log directories."""
    wanted = _wanted(arguments)
    with Admin(admin_config(arguments)) as admin:
        going = admin.replicas.list_partition_reassignments(wanted)
        outcomes = admin.replicas.alter_partition_reassignments(dict.fromkeys(going))
        ended = {tp for tp, error in outcomes.items() if error is None}
        # One that has ended by itself meanwhile is none to cancel.
        errors = {tp: error for tp, error in outcomes.items() if not isinstance(error, NoReassignmentInProgressError)}
        failed = _told_errors(errors, "Error cancelling partition reassignment(s)")
        if ended:
            names = ",".join(map(str, sorted(ended)))
            print(f"Successfully cancelled partition reassignment{_s(ended)} for: {names}")
        elif not failed:
            print("None of the specified partition reassignments are active.")
        failed = not _cancel_directory_moves(admin, _directories(wanted)) or failed
        if not arguments.preserve_throttles:
            _clear_if_idle(admin, wanted, besides=ended)
    return 1 if failed else 0


@reporting
def run_list_all(arguments: argparse.Namespace) -> int:
    """Print the reassignments that are going on."""
    with Admin(admin_config(arguments)) as admin:
        going = admin.replicas.list_partition_reassignments()
        if not going:
            print("No partition reassignments found.")
            return 0
        print("Current partition reassignments:")
        for tp, each in sorted(going.items()):
            adding = f" adding: {','.join(map(str, each.adding))}." if each.adding else ""
            removing = f" removing: {','.join(map(str, each.removing))}." if each.removing else ""
            print(f"{tp}: replicas: {','.join(map(str, each.replicas))}.{adding}{removing}", flush=True)
        print(f"\n{_progress(admin, going)}")
    return 0


# -- parts


def _wanted(arguments: argparse.Namespace) -> dict[TopicPartition, Placed]:
    file = arguments.reassignment_json_file
    where = f"--reassignment-json-file {file}"
    found = parse_reassignment(read_file(file, "--reassignment-json-file"), where)
    if not found:
        raise UsageError(f"{where}: Partition reassignment list cannot be empty")
    return found


def _placements(admin: Admin, topics: Iterable[str], *, may_be_gone: bool = False) -> Replicas:
    """Return the replicas of all partitions of topics.

    Raises:
        UnknownTopicOrPartitionError: A topic does not exist; with `may_be_gone` it is left out.
    """
    names = sorted(set(topics))
    if may_be_gone:
        known = set(admin.list_topics(internal=True))
        names = [name for name in names if name in known]
    described = admin.describe_topics(names) if names else {}
    return {
        TopicPartition(name, index): tuple(partition.replicas)
        for name, topic in described.items()
        for index, partition in topic.partitions.items()
    }


def _progress(admin: Admin, going: Mapping[TopicPartition, Reassignment]) -> str:
    """Return a line about what is left; without the bytes, where a broker does not tell what it has."""
    try:
        now = progress.progress_of(going, admin.replicas.describe_log_dirs(), time.monotonic())
    except (KafkaError, ClientError) as error:
        return f"{len(going)} partitions; how much is left, is not known: {getattr(error, 'message', error)}"
    return progress.told(now, now)


def _status(tp: TopicPartition, wanted: Sequence[int], going: object | None, current: Sequence[int] | None) -> str:
    if going is not None:
        return f"Reassignment of partition {tp} is still in progress."
    if current is None:
        return f"There is no partition {tp} any more."
    if tuple(current) == tuple(wanted):
        return f"Reassignment of partition {tp} is completed."
    return (
        f"There is no active reassignment of partition {tp}, but replica set is {','.join(map(str, current))} rather "
        f"than {','.join(map(str, wanted))}."
    )


def _waits(admin: Admin, going: Mapping[TopicPartition, Reassignment]) -> dict[TopicPartition, list[str]]:
    """Return what the first reassignments in progress wait for; nothing where the controller cannot tell."""
    found: dict[TopicPartition, list[str]] = {}
    alive = set(admin.describe_cluster().brokers) if going else set()
    for tp, reassignment in sorted(going.items())[:EXPLAINED]:
        try:
            found[tp] = list(waits(reassignment, admin.replicas.explain(tp), alive))
        except UnsupportedVersionError:
            # The controller is a broker of Apache Kafka.
            break
        except (KafkaError, ClientError) as error:
            found[tp] = [f"what it waits for is not known: {error}"]
    return found


@contextmanager
def _throttled(
    admin: Admin, arguments: argparse.Namespace, wanted: Wanted, before: Replicas, alive: set[int]
) -> Iterator[throttles.Configs]:
    """Set the throttles that are asked for; yield those of before. If the block raises, restore these.

    The throttles stay while replicas move, and a message says how to remove them later.
    """
    rate = arguments.replica_alter_log_dirs_throttle
    moves = _moves(admin, wanted, before) if arguments.throttle else {}
    movers = {replica.broker for replica in _directories(wanted)} & alive if rate else set()
    brokers = throttles.involved(moves) & alive
    earlier = throttles.of(admin, {tp.topic for tp in moves}, brokers | movers)
    try:
        if arguments.throttle:
            throttles.set_throttles(admin, moves, arguments.throttle, brokers)
            if not arguments.follow:
                print(
                    "Warning: You must run verify periodically, until the reassignment completes, to ensure the "
                    "throttle is removed."
                )
            print(f"The inter-broker throttle limit was set to {arguments.throttle} B/s")
        if rate:
            throttles.set_rates(admin, movers, {throttles.ALTER_DIRS_RATE: rate})
            print(f"The replica-alter-dir throttle limit was set to {rate} B/s")
        yield earlier
    except BaseException:
        # Ctrl-C, too.
        if earlier:
            _restore_or_tell(admin, arguments, earlier)
        raise


def _moves(admin: Admin, wanted: Wanted, before: Replicas) -> throttles.Moves:
    """Return the moves to throttle. What moves already has its throttle changed, too."""
    going = admin.replicas.list_partition_reassignments()
    present = {tp: [broker for broker in each.replicas if broker not in each.adding] for tp, each in going.items()}
    return {tp: (present[tp], each.replicas) for tp, each in going.items()} | {
        tp: (present.get(tp, before[tp]), placed.replicas) for tp, placed in wanted.items()
    }


def _restore_or_tell(admin: Admin, arguments: argparse.Namespace, earlier: throttles.Configs) -> None:
    """Restore the throttles of before if nothing moves; else, or if brokers do not answer, say how they are removed."""
    with suppress(KafkaError, ClientError, KeyboardInterrupt):
        if not _anything_moves(admin):
            throttles.restore(admin, earlier)
            return
    complain(
        "The throttles stay, as partitions may be moving. To remove them at the end, run `kafkalog reassign verify "
        f"--reassignment-json-file {arguments.reassignment_json_file}`"
    )


def _clear(admin: Admin, wanted: Wanted) -> None:
    """Remove the throttles of all brokers and of the file's topics."""
    brokers = sorted(admin.describe_cluster().brokers)
    known = set(admin.list_topics(internal=True))
    topics = sorted({tp.topic for tp in wanted} & known)
    print(f"\nClearing broker-level throttles on broker{_s(brokers)} {','.join(map(str, brokers))}")
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(topics)}", flush=True)
    throttles.clear_throttles(admin, topics, brokers)


def _clear_if_idle(admin: Admin, wanted: Wanted, *, besides: Collection[TopicPartition] = ()) -> None:
    """Remove the throttles, unless others move partitions: theirs cannot be told from those of this command.

    `besides` are partitions whose moves were cancelled; they may take a moment to end.
    """
    if _anything_moves(admin, besides):
        print("Other reassignments are in progress, and the throttles stay. Run verify at their end to remove them.")
    else:
        _clear(admin, wanted)


def _anything_moves(admin: Admin, besides: Collection[TopicPartition] = ()) -> bool:
    """Return whether partitions move between brokers, or replicas between log directories."""
    if admin.replicas.list_partition_reassignments().keys() - set(besides):
        return True
    directories = [info for paths in admin.replicas.describe_log_dirs().values() for info in paths.values()]
    return any(replica.is_future for info in directories for replica in info.replicas.values())


def _directory_moves(admin: Admin, directories: Mapping[ReplicaOnBroker, str]) -> list[DirectoryMove]:
    return directory_moves(directories, admin.replicas.describe_log_dirs()) if directories else []


def _follow(admin: Admin, partitions: Iterable[TopicPartition], directories: Mapping[ReplicaOnBroker, str]) -> None:
    """Print how far the partitions are, until none of them moves between brokers, and no replica between directories.

    Raises:
        KafkaError, ClientError: A broker refuses to tell, and will go on to refuse it.
    """
    wanted = list(partitions)
    first: progress.Progress | None = None
    line = ""
    while True:
        try:
            going = admin.replicas.list_partition_reassignments(wanted)
            moving = [move for move in _directory_moves(admin, directories) if move.is_active]
            if not going and not moving:
                return
            now = progress.progress_of(going, admin.replicas.describe_log_dirs(), time.monotonic())
        except (KafkaError, ClientError) as error:
            if not error.retriable:
                raise
            # A broker may restart meanwhile.
            complain(error)
        else:
            # More bytes than before: the moves began just now, or producers are faster.
            first = now if first is None or now.bytes_left > first.bytes_left else first
            told = [progress.told(first, now)] if going else []
            before, line = line, "\n".join([*told, *(move.told for move in moving)])
            if line != before:
                print(line, flush=True)
        time.sleep(FOLLOW_S)


def _directories(wanted: Wanted) -> dict[ReplicaOnBroker, str]:
    return {
        ReplicaOnBroker(tp, broker): path
        for tp, placed in wanted.items()
        for broker, path in zip(placed.replicas, placed.directories, strict=True)
        if path != ANY_DIRECTORY
    }


def _ask_for_directories(
    admin: Admin, directories: Mapping[ReplicaOnBroker, str], alive: Collection[int]
) -> tuple[dict[ReplicaOnBroker, str], Collection[ReplicaOnBroker]]:
    """Tell brokers the directories of replicas that they will get; move those that they have.

    Returns:
        The replicas that their brokers do not have yet, and those that cannot be moved. A message tells why.
    """
    here = {replica: path for replica, path in directories.items() if replica.broker in alive}
    errors = {replica: "the broker is not alive" for replica in directories if replica not in here}
    absent: dict[ReplicaOnBroker, str] = {}
    for replica, error in admin.replicas.alter_replica_log_dirs(here).items():
        if isinstance(error, NOT_THERE):
            absent[replica] = here[replica]
        elif error is not None:
            errors[replica] = error.message
    for replica, message in sorted(errors.items()):
        complain(f"Failed to move {_named(replica)} to {directories[replica]}: {message}")
    return absent, errors.keys()


def _place_in_directories(admin: Admin, absent: Mapping[ReplicaOnBroker, str]) -> bool:
    """Move the replicas that are made meanwhile to their directories; return whether any of them could not be moved."""
    left = dict(absent)
    brokers = {replica.broker for replica in absent}
    failed = False
    end = time.monotonic() + DIRECTORIES_S
    while left and time.monotonic() < end:
        asked = left
        left, refused = _ask_for_directories(admin, asked, brokers)
        _tell_moves({each: asked[each] for each in asked if each not in left and each not in refused})
        failed = failed or bool(refused)
        if left:
            time.sleep(FOLLOW_S / 4)
    for replica, path in left.items():
        complain(f"{_named(replica)} is not in {path} yet: there is no replica there")
    return failed or bool(left)


def _tell_moves(started: Mapping[ReplicaOnBroker, str]) -> None:
    for replica, path in sorted(started.items()):
        print(
            f"Successfully started moving log directory to {path} for replica {replica.partition} with broker "
            f"{replica.broker}",
            flush=True,
        )


def _cancel_directory_moves(admin: Admin, directories: Mapping[ReplicaOnBroker, str]) -> bool:
    """Leave replicas that move between directories where they are; return whether all do so."""
    if not directories:
        return True
    moves = moving(directories, admin.replicas.describe_log_dirs())
    back = {replica: move.current for replica, move in moves.items()}
    absent, refused = _ask_for_directories(admin, back, {replica.broker for replica in back})
    for replica, move in moves.items():
        if replica not in absent and replica not in refused:
            print(f"Successfully cancelled the move of {_named(replica)} to {move.future}")
    if not moves:
        print("None of the specified partition moves are active.")
    return not refused


def _named(replica: ReplicaOnBroker) -> str:
    return f"{replica.partition} on broker {replica.broker}"


def _told_errors(outcomes: Mapping[TopicPartition, KafkaError | None], what: str) -> bool:
    errors = [f"{tp}: {error.message}" for tp, error in sorted(outcomes.items()) if error is not None]
    if errors:
        complain(f"{what}: " + "; ".join(errors))
    return bool(errors)


def _s(items: Iterable[object]) -> str:
    return "" if len(list(items)) == 1 else "s"
