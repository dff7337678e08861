"""The offsets that a trigger takes: the limits, the minimum to wait for, and the end of Trigger.AvailableNow.

Pure functions over maps of offsets. They follow Spark's Kafka source except for one rule. Spark rounds a partition's
share up to at least one offset, so a trigger may exceed `maxOffsetsPerTrigger` by fewer offsets than there are
partitions. Here the sum never exceeds the limit (largest remainders), and partitions that get nothing take turns.
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
    """Return how many offsets to take from each partition, so that together they cost at most `most`.

    Every partition gets one offset. The rest is shared in proportion to the waiting offsets, and the remainder of the
    division goes to the largest remainders. If `most` does not pay for one offset of each partition, they take turns,
    beginning at number `turn`. One offset is taken even if it costs more than `most`, so that the query makes
    progress. `costs` has the cost of one offset of each partition, 1 by default.
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
    """Return the ends of a batch of at most `most` offsets, shared by `apportion`.

    `earliest_of_new` has the first offsets of partitions that are missing in `start`. The turn follows from the
    positions: each trigger advances by the offsets that it takes, so no partition waits for ever, even across restarts
    of the query.
    """
    begins = {tp: start.get(tp, earliest_of_new.get(tp)) for tp in latest}
    known = {tp: begin for tp, begin in begins.items() if begin is not None and latest[tp] >= begin}
    sizes = {tp: latest[tp] - begin for tp, begin in known.items()}
    taken = apportion(sizes, most, sum(known.values()))
    # The other partitions have no known beginning, or went backwards; the planning of ranges reports that.
    return dict(latest) | {tp: known[tp] + count for tp, count in taken.items()}


def waiting(start: Offsets, latest: Offsets) -> int:
    """Return the number of offsets between two positions; a new partition counts from 0."""
    return sum(offset - start.get(tp, 0) for tp, offset in latest.items())


def is_held_back(start: Offsets, latest: Offsets, least: int, since_last_s: float, max_delay_s: float) -> bool:
    """Return whether to wait for more offsets before the next batch.

    True while fewer than `least` are new (`minOffsetsPerTrigger`) and the delay is below `max_delay_s`.
    """
    return since_last_s < max_delay_s and waiting(start, latest) < least


def check_available_now(target: Position, latest: Position) -> None:
    """Check that brokers still have what a query with Trigger.AvailableNow is to read, up to the target of its start.

    Raises:
        RuntimeError: Topics changed while the query ran. The text has the condition's name.
    """
    if lost := target.offsets.keys() - latest.offsets.keys():
        raise RuntimeError(
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] Topic partitions are gone that the query "
            f"is to read: {names(lost)}. Restart the query."
        )
    recreated = target.recreated(latest)
    for tp, offset in target.offsets.items():
        if offset > latest.offsets[tp] or tp.topic in recreated:
            sure = "was" if tp.topic in recreated else "may have been"
            raise RuntimeError(
                "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW] The end "
                f"offset of {tp} is {offset}, but the partition now ends at {latest.offsets[tp]}: the topic {sure} "
                "deleted and created again. Restart the query."
            )
