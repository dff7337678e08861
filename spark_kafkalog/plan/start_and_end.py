"""Resolve the limits that a user gave to the offsets where the reading of each partition starts or ends."""

from __future__ import annotations

from collections.abc import Collection

from kafkalog.client.types import TopicPartition
from spark_kafkalog.offsets import Lookup, Offsets, names
from spark_kafkalog.options.limits import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, AtTimestamps, Limit
from spark_kafkalog.options.parsing import OptionsError


def resolve(
    limit: Limit, assigned: Collection[TopicPartition], lookup: Lookup, *, starting: bool
) -> dict[TopicPartition, int]:
    """Return the offset that `limit` means in each assigned partition.

    Raises:
        OptionsError: `limit` names other partitions than the assigned ones, or lacks some (unless
            `startingOffsetsStrategy=earliest`); or it is a start, and no record is as late as a timestamp (unless
            `startingOffsetsByTimestampStrategy=latest`).
    """
    if isinstance(limit, AtEnd):
        wanted = dict.fromkeys(assigned, limit.which)
    elif isinstance(limit, AtOffsets):
        others = set(assigned) - limit.offsets.keys() if limit.earliest_if_none else ()
        wanted = {**limit.offsets, **dict.fromkeys(others, EARLIEST)}
        _check_named(wanted, assigned, "startingOffsets" if starting else "endingOffsets")
    else:
        wanted = _by_timestamp(limit, assigned, lookup, starting)
    ends = {tp: offset for tp, offset in wanted.items() if offset in (EARLIEST, LATEST)}
    found = lookup(ends) if ends else {}
    for tp in ends:
        if tp not in found:
            raise OptionsError(f"{tp} does not exist, or was deleted while the query was planned")
    return wanted | {tp: found[tp] for tp in ends}


def _by_timestamp(
    limit: AtTimestamp | AtTimestamps, assigned: Collection[TopicPartition], lookup: Lookup, starting: bool
) -> dict[TopicPartition, int]:
    if isinstance(limit, AtTimestamp):
        times = dict.fromkeys(assigned, limit.timestamp)
    else:
        side = "starting" if starting else "ending"
        if limit.timestamps.keys() != set(assigned):
            raise OptionsError(
                f"If {side}OffsetsByTimestamp contains specific offsets, you must specify all topics. "
                f"Specified: {names(limit.timestamps)} Assigned: {names(assigned)}"
            )
        times = dict(limit.timestamps)
    for tp, time in times.items():
        if time < 0:
            raise OptionsError(f"timestamp {time} of {tp} is negative; milliseconds since 1970 are expected")
    must_match = starting and not limit.latest_if_none
    # The ends first: a record that comes in between may be late enough, and then it lies behind this end.
    ends = lookup(dict.fromkeys(times, LATEST)) if times and not must_match else {}
    found = lookup(times) if times else {}
    offsets = {tp: found.get(tp, LATEST) for tp in times}
    if must_match:
        for tp, offset in offsets.items():
            if offset == LATEST:
                raise OptionsError(f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}.")
    return {tp: ends.get(tp, LATEST) if offset == LATEST else offset for tp, offset in offsets.items()}


def _check_named(named: Offsets, assigned: Collection[TopicPartition], option: str) -> None:
    if named.keys() != set(assigned):
        raise OptionsError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions.\n"
            "Use -1 for latest, -2 for earliest, if you don't care.\n"
            f"Specified: {names(named)} Assigned: {names(assigned)}"
        )
