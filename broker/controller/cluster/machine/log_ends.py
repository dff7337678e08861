"""The choice of an unclean election: the replica with the longest log.

Where no in-sync replica is alive, any other one may lead, if that is allowed. Each of them lacks records. Apache Kafka
elects the first one that is alive in the order of the assignment. Here the one leads that lacks least: whose last
record is of the latest leader epoch, and of those the one whose log ends last. Its broker is asked for that.

Brokers of Apache Kafka are not asked. Where a live replica is on one of them, the order of the assignment decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from broker.controller.cluster.model.context import ControllerContext, PartitionKey
from broker.controller.cluster.model.effects import Ask, LogEnd, Steps


def longest(context: ControllerContext, keys: Collection[PartitionKey]) -> Steps[dict[PartitionKey, int]]:
    """Return who is to lead each partition in an unclean election; none where the order of the assignment decides.

    The causes of the elections, with the ends of the logs, are noted in the context.
    """
    comparable: dict[PartitionKey, tuple[int, ...]] = {}
    for key in keys:
        online = context.online(key, context.assignment(key).replicas)
        why = _incomparable(context, online)
        if why is None:
            comparable[key] = online
        elif online:
            _note(context, key, f"replica {online[0]} is the first one in order that is alive. {why}")
    wanted: dict[int, list[PartitionKey]] = {}
    for key, online in comparable.items():
        for broker_id in online:
            wanted.setdefault(broker_id, []).append(key)
    if not wanted:
        return {}
    found: Mapping[int, Mapping[PartitionKey, LogEnd]] = yield Ask(wanted, context.settings.log_ends_timeout_s)
    chosen: dict[PartitionKey, int] = {}
    for key, online in comparable.items():
        ends = {each: found[each][key] for each in online if key in found.get(each, {})}
        told = ", ".join(f"{each}: {_described(ends.get(each))}" for each in online)
        if ends:
            chosen[key] = choose(online, ends)
            _note(context, key, f"replica {chosen[key]} has the longest log of those alive. Ends of logs: {told}")
        else:
            _note(context, key, f"replica {online[0]} is the first one in order that is alive. Ends of logs: {told}")
    return chosen


def choose(candidates: Collection[int], ends: Mapping[int, LogEnd]) -> int:
    """Return the candidate with the longest log; of several, the first one in their order. One of them has an end."""
    return max((each for each in candidates if each in ends), key=lambda each: ends[each])


def _incomparable(context: ControllerContext, online: Collection[int]) -> str | None:
    """Return why the logs of replicas are not compared; None if they are."""
    if len(online) <= 1:
        return "There is no other one"
    if not context.settings.log_ends_timeout_s:
        return "Logs are not compared (kafkalog.unclean.recovery.timeout.ms=0)"
    others = [each for each in online if not context.brokers[each].watches_itself]
    return f"Logs are not compared: the software of brokers {others} is another one" if others else None


def _note(context: ControllerContext, key: PartitionKey, what: str) -> None:
    before = context.causes.get(key, context.cause)
    context.causes[key] = f"{before}; no in-sync replica is alive, and the topic allows an unclean election: {what}"


def _described(end: LogEnd | None) -> str:
    return "no answer" if end is None else f"offset {end.offset}, last record of epoch {end.epoch}"
