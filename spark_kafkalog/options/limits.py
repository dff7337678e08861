"""The start and the end of a query: `starting…` and `ending…` options, not yet resolved to offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition
from spark_kafkalog.options.parsing import TIMESTAMPS_EXAMPLE, Given, OptionsError, parse_offsets, single_timestamp

EARLIEST = -2
LATEST = -1
LIMITS = tuple(
    frozenset({f"{side}timestamp", f"{side}offsetsbytimestamp", f"{side}offsets"}) for side in ("starting", "ending")
)
"""The options that tell a start, and those that tell an end, in lower case."""
OFFSETS_STRATEGY = "startingOffsetsStrategy"
TIMESTAMPS_STRATEGY = "startingOffsetsByTimestampStrategy"
LENIENT = {OFFSETS_STRATEGY: "earliest", TIMESTAMPS_STRATEGY: "latest"}
"""Options for partitions without a start, each with the end where these begin then. The default of each is `error`."""
_ENDS = ("earliest", "latest")


@dataclass(frozen=True)
class AtEnd:
    """`earliest` (-2) or `latest` (-1) in every partition."""

    which: int


@dataclass(frozen=True)
class AtOffsets:
    """An offset for each partition; -2 and -1 stand for the ends."""

    offsets: Mapping[TopicPartition, int]
    earliest_if_none: bool = False
    """If a partition has no such offset, start at its earliest one instead of refusing the query."""


@dataclass(frozen=True)
class AtTimestamps:
    """The first record at or after a time (ms) in each partition."""

    timestamps: Mapping[TopicPartition, int]
    latest_if_none: bool = False
    """If a partition has no such record, start at its end instead of refusing the query."""


@dataclass(frozen=True)
class AtTimestamp:
    """The first record at or after one time (ms) in every partition."""

    timestamp: int
    latest_if_none: bool = False


Limit = AtEnd | AtOffsets | AtTimestamps | AtTimestamp


def parse_limit(given: Given, side: str) -> Limit | None:
    """Parse the limit of one side, `starting` or `ending`; None if no option sets it.

    `startingTimestamp` takes precedence over `startingOffsetsByTimestamp`, and that over `startingOffsets`;
    likewise for `ending…`.
    """
    latest_if_none = side == "starting" and is_lenient(given, TIMESTAMPS_STRATEGY)
    earliest_if_none = side == "starting" and is_lenient(given, OFFSETS_STRATEGY)
    if f"{side}Timestamp" in given:
        return AtTimestamp(given.get(f"{side}Timestamp", single_timestamp, 0), latest_if_none)
    if f"{side}OffsetsByTimestamp" in given:
        return AtTimestamps(
            given.get(
                f"{side}OffsetsByTimestamp", lambda name, text: parse_offsets(name, text, TIMESTAMPS_EXAMPLE), {}
            ),
            latest_if_none,
        )
    if f"{side}Offsets" not in given:
        return None
    text = given.text(f"{side}Offsets").strip()
    if text.lower() in _ENDS:
        return AtEnd(EARLIEST if text.lower() == "earliest" else LATEST)
    offsets = parse_offsets(f"{side}Offsets", text, words=_ENDS)
    for tp, offset in offsets.items():
        if offset < EARLIEST:
            raise OptionsError(
                f"{side}Offsets: offset {offset} of {tp} is negative; -1 stands for latest and -2 for earliest"
            )
    return AtOffsets(offsets, earliest_if_none)


def is_lenient(given: Given, name: str) -> bool:
    """Return whether an option of `LENIENT` has its other value than `error`.

    Raises:
        OptionsError: It has neither.
    """
    strategy = given.get(name, lambda _, text: text.strip().lower(), "error")
    if strategy not in ("error", LENIENT[name]):
        raise OptionsError(f"{name}: expected error or {LENIENT[name]}, got '{strategy}'")
    return strategy == LENIENT[name]


def check_order(starting: Limit, ending: Limit) -> None:
    """Refuse a start behind its end, or one for other partitions, if both are given in the same form."""
    what, starts, ends = "", dict[TopicPartition, int](), dict[TopicPartition, int]()
    if isinstance(starting, AtTimestamp) and isinstance(ending, AtTimestamp):
        if starting.timestamp > ending.timestamp:
            raise OptionsError(
                f"The value of startingTimestamp ({starting.timestamp}) is higher than the value of endingTimestamp "
                f"({ending.timestamp})"
            )
    elif isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        what, starts, ends = "OffsetsByTimestamp", dict(starting.timestamps), dict(ending.timestamps)
    elif isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        what, starts, ends = "Offsets", dict(starting.offsets), dict(ending.offsets)
        if starting.earliest_if_none:
            starts = dict.fromkeys(ends, EARLIEST) | starts
    if starts.keys() != ends.keys():
        raise OptionsError(
            f"starting{what} and ending{what} name different topic partitions: only one of them has "
            f"{', '.join(map(str, sorted(starts.keys() ^ ends.keys())))}"
        )
    for tp, start in starts.items():
        if 0 <= ends[tp] < start:
            raise OptionsError(
                f"The value of starting{what} ({start}) is higher than the value of ending{what} ({ends[tp]}) for {tp}"
            )
