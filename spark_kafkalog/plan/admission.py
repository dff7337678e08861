"""How much a trigger takes: limits by offsets and by bytes, holding back, and the end of Trigger.AvailableNow.

Pure functions over maps of offsets. They follow Spark's Kafka source but for one rule: it rounds a partition's share
below one offset up, so that a trigger may pass ``maxOffsetsPerTrigger`` by fewer offsets than there are partitions.
Here the sum never passes the limit (largest remainders), and partitions that get nothing take turns.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.types import TopicPartition
from spark_kafkalog.offsets import Offsets, Position, names


def apportion(
    waiting: Mapping[TopicPartition, int],
    most: int,
    turn: int,
    costs: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """Offsets to take from each partition, so that they cost no more than ``most`` together.

    Every partition gets one offset, the rest is shared in proportion to what is waiting, and what rounding leaves goes
    to the largest remainders. Where ``most`` does not pay for one offset of each, partitions take turns, beginning at
    number ``turn``. One offset is taken even if it costs more than ``most``: a query must go on. ``costs`` are of one
    offset of each partition, 1 unless given.
    """
    order = sorted(waiting)
    cost = {tp: 1 if costs is None else max(costs[tp], 1) for tp in order}
    if sum(count * cost[tp] for tp, count in waiting.items()) <= most:
        return dict(waiting)
    taken = dict.fromkeys(order, 0)
    first = turn % len(order)
    filled = [tp for tp in order[first:] + order[:first] if waiting[tp] > 0]
    left = most
    for tp in filled:
        if cost[tp] > left:
            taken[filled[0]] = 1
            return taken
        taken[tp] = 1
        left -= cost[tp]
    rest = {tp: (waiting[tp] - 1) * cost[tp] for tp in filled}
    total = sum(rest.values())
    remainders = {}
    spare = left
    for tp in filled:
        more, remainders[tp] = divmod(left * rest[tp], total * cost[tp])
        taken[tp] += more
        spare -= more * cost[tp]
    for tp in sorted(filled, key=lambda tp: remainders[tp] / (total * cost[tp]), reverse=True):
        if remainders[tp] and cost[tp] <= spare:
            taken[tp] += 1
            spare -= cost[tp]
    return taken


def rate_limited(
    start: Offsets,
    latest: Offsets,
    earliest_of_new: Offsets,
    most: int,
) -> dict[TopicPartition, int]:
    """Ends of a batch of at most ``most`` offsets, as `apportion` shares them.

    ``earliest_of_new``: where the partitions begin that ``start`` does not have. Whose turn it is follows from the
    positions: each trigger moves on by as many offsets as it takes, so no partition waits for ever, whoever restarts
    the query.
    """
    begins = {tp: start.get(tp, earliest_of_new.get(tp)) for tp in latest}
    known = {tp: begin for tp, begin in begins.items() if begin is not None and latest[tp] >= begin}
    sizes = {tp: latest[tp] - begin for tp, begin in known.items()}
    taken = apportion(sizes, most, sum(known.values()))
    # Where a partition begins is unknown, or it went backwards: that is for the planning of ranges to report.
    return dict(latest) | {tp: known[tp] + count for tp, count in taken.items()}


def waiting(start: Offsets, latest: Offsets) -> int:
    """Number of offsets between two positions; a new partition counts from 0."""
    return sum(offset - start.get(tp, 0) for tp, offset in latest.items())


def is_held_back(start: Offsets, latest: Offsets, least: int, since_last_s: float, max_delay_s: float) -> bool:
    """Whether to wait for more: fewer than ``least`` new offsets (``minOffsetsPerTrigger``), and not too long yet."""
    return since_last_s < max_delay_s and waiting(start, latest) < least


def check_available_now(end: Offsets, target: Position, latest: Position) -> None:
    """What Trigger.AvailableNow promises: an end within the target fixed at the start, which the brokers still have.

    Raises RuntimeError with the condition's name where topics changed under the query.
    """
    if end.keys() != target.offsets.keys():
        raise RuntimeError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED] Topic partitions changed between the "
            f"start of the query ({names(target.offsets)}) and this batch ({names(end)}). Restart the query."
        )
    if lost := end.keys() - latest.offsets.keys():
        raise RuntimeError(
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] Topic partitions are gone that the query "
            f"is to read: {names(lost)}. Restart the query."
        )
    recreated = target.recreated(latest)
    for tp, offset in end.items():
        if offset > target.offsets[tp]:
            raise RuntimeError(
                "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED] The end offset of "
                f"{tp} is {offset}, beyond {target.offsets[tp]}, where the partition ended when the query began. "
                "Restart the query."
            )
        if offset > latest.offsets[tp] or tp.topic in recreated:
            sure = "was" if tp.topic in recreated else "may have been"
            raise RuntimeError(
                "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW] The end "
                f"offset of {tp} is {offset}, but the partition now ends at {latest.offsets[tp]}: the topic {sure} "
                "deleted and created again. Restart the query."
            )
