"""Estimates of the bytes in a range of offsets, for `maxBytesPerTrigger` and `maxBytesPerPartition`.

Kafka has no request for the bytes between two offsets. But a Fetch of a few bytes returns the header of the record
batch at an offset, with the batch's bytes and the number of offsets that it spans. Headers at evenly spaced offsets of
a range are an unbiased sample of bytes per offset: the probability to hit a batch is proportional to its offsets.
Offsets that compaction has emptied count as 0 bytes.

Why not the partition's size (DescribeLogDirs) divided by its offsets? That is the mean of the whole log, not of the
range to read (10 KB records after a week of 100-byte ones: 50 times off). It also needs the right to describe the
cluster, while a Fetch needs only the rights that the query needs anyway.

Accuracy, simulated for a limit of 4 MB over batches of 16 KB whose bytes per offset have a standard deviation of 5 %,
20 %, 50 %: a trigger's bytes differ from the limit by a standard deviation of 2 %, 6 %, 17 %. Cost: 20 requests a
broker in a trigger that may reach its limit, 4 in any other. A response has up to 64 KiB a partition, and one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from kafkalog.client.types import TopicPartition
from spark_kafkalog.offsets import OffsetRange, Offsets
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.plan.admission import apportion
from spark_kafkalog.plan.splitting import Measure, divide

SAMPLES = 8
"""Headers sampled in a range of offsets that is to be cut."""
_FIRST_LOOK = 4
"""Headers sampled in all waiting offsets. One alone can be far off, if small batches come before large ones."""
_FAR_BELOW = 4
"""If a first estimate is below the limit by this factor, no closer look is taken."""
_LOOKS = ((2.0, 4), (1.25, 12))
"""Closer looks: (how many times the limit the sampled range seems to hold, number of headers)."""
ASSUMED_DENSITY = 1024
"""Bytes per offset where no batch has ever told its size. Kafka's records seldom have more."""
_COST_UNIT = 1 << 10
"""`apportion` takes integer costs, so they are counted in 1/1024 of a byte."""

Densities = Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, float]]
"""Finds the bytes per offset of the batch at an offset of each partition; 0 if compaction has emptied the offset.
Partitions without an answer are missing."""


class Profile(NamedTuple):
    """Bytes per offset along offsets [start, end), in parts of equal length."""

    start: int
    end: int
    densities: tuple[float, ...]

    @property
    def bytes(self) -> float:
        return (self.end - self.start) * math.fsum(self.densities) / len(self.densities)

    def before(self, offset: int) -> float:
        """Return the estimated bytes between the start and an offset."""
        parts = len(self.densities)
        at = min(max(offset - self.start, 0), self.end - self.start) * parts / max(self.end - self.start, 1)
        whole = min(int(at), parts)
        part = math.fsum(self.densities[:whole]) + (at - whole) * (self.densities[whole] if whole < parts else 0)
        return part * (self.end - self.start) / parts

    def offset_at(self, size: float) -> int:
        """Return the largest offset before which there are at most `size` bytes."""
        length = (self.end - self.start) / len(self.densities)
        left = size
        for index, density in enumerate(self.densities):
            here = density * length
            if here > left:
                return min(self.start + int((index + left / here) * length), self.end)
            left -= here
        return self.end


def profiles(
    ranges: Iterable[OffsetRange],
    densities: Densities,
    samples: int = SAMPLES,
    known: Mapping[TopicPartition, Profile] | None = None,
) -> dict[TopicPartition, Profile]:
    """Make a profile of each range from the header in the middle of each of its parts: one request a broker and part.

    A partition without any header keeps its density of before, in `known`. Without one it gets the mean of the others:
    of those with headers, else of all in `known`, else `ASSUMED_DENSITY`.
    """
    wanted = [part for part in ranges if part.size > 0]
    found: dict[TopicPartition, list[float | None]] = {part.tp: [] for part in wanted}
    for index in range(samples):
        at = {part.tp: part.start + part.size * (2 * index + 1) // (2 * samples) for part in wanted}
        seen = densities(at) if at else {}
        for tp in at:
            found[tp].append(seen.get(tp))
    before = {tp: math.fsum(each.densities) / len(each.densities) for tp, each in (known or {}).items()}
    others = [density for each in found.values() for density in each if density is not None] or [*before.values()]
    mean = math.fsum(others) / len(others) if others else float(ASSUMED_DENSITY)
    made = {}
    for part in wanted:
        own = [density for density in found[part.tp] if density is not None]
        middle = math.fsum(own) / len(own) if own else before.get(part.tp, mean)
        values = tuple(middle if density is None else density for density in found[part.tp])
        made[part.tp] = Profile(part.start, part.end, values)
    return made


def limited(
    begins: Offsets,
    ends: Offsets,
    most: int,
    densities: Densities,
    known: Mapping[TopicPartition, Profile] | None = None,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, Profile]]:
    """Return ends so that the batch has about `most` bytes, and the profiles that this is estimated from.

    The bytes are shared in proportion to the waiting bytes. At least one offset of one partition is taken. Partitions
    that get none take turns, as in `apportion`. `known` has the profiles of before.
    """
    waiting = {tp: ends[tp] - begins[tp] for tp in ends if ends[tp] > begins[tp]}
    ranges = [OffsetRange(tp, begins[tp], ends[tp]) for tp in sorted(waiting)]
    if not ranges:
        return dict(ends), {}
    turn = sum(begins[tp] for tp in ends)
    guess = profiles(ranges, densities, _FIRST_LOOK, known)
    if sum(profile.bytes for profile in guess.values()) * _FAR_BELOW <= most:
        return dict(ends), guess
    looked = guess
    for ahead, samples in _LOOKS:
        reach = _reach(waiting, looked, round(ahead * most), turn)
        near = [OffsetRange(part.tp, part.start, reach[part.tp]) for part in ranges if reach[part.tp] > part.start]
        looked = guess | profiles(near, densities, samples, guess)
    return {tp: begins[tp] for tp in ends} | _reach(waiting, looked, most, turn), looked


def _reach(
    waiting: Mapping[TopicPartition, int], looked: Mapping[TopicPartition, Profile], most: int, turn: int
) -> dict[TopicPartition, int]:
    """Return the offsets where `most` bytes end, according to the profiles."""
    costs = _costs(looked)
    reach = {}
    for tp, count in apportion(waiting, most * _COST_UNIT, turn, costs).items():
        profile = looked[tp]
        behind = max(profile.offset_at(count * costs[tp] / _COST_UNIT), profile.start + 1)
        reach[tp] = min(behind, profile.start + waiting[tp]) if count else profile.start
    return reach


def _costs(of: Mapping[TopicPartition, Profile]) -> dict[TopicPartition, int]:
    return {
        tp: max(math.ceil(profile.bytes * _COST_UNIT / (profile.end - profile.start)), 1) for tp, profile in of.items()
    }


def measure_for(
    options: SourceOptions,
    ranges: Iterable[OffsetRange],
    densities: Densities,
    known: Mapping[TopicPartition, Profile] | None = None,
) -> Measure | None:
    """Return the measure to cut ranges into tasks with: by bytes if an option limits bytes, else None (by offsets)."""
    counts_bytes = options.max_bytes_per_partition or options.max_bytes_per_trigger
    if not counts_bytes or not (options.max_bytes_per_partition or options.min_partitions):
        return None
    known = known or {}
    missing = [part for part in ranges if not _covers(known.get(part.tp), part)]
    return ByBytes({**known, **profiles(missing, densities, known=known)})


def _covers(profile: Profile | None, part: OffsetRange) -> bool:
    return profile is not None and profile.start <= part.start and part.end <= profile.end


class ByBytes:
    """Measures ranges by their estimated bytes; see `splitting.split`."""

    def __init__(self, of: Mapping[TopicPartition, Profile]) -> None:
        self._profiles = of

    def weight(self, part: OffsetRange) -> int:
        """Return the bytes of a range; its number of offsets if it has no profile."""
        profile = self._profiles.get(part.tp)
        if profile is None:
            return part.size
        return max(round(profile.before(part.end) - profile.before(part.start)), 1)

    def divide(self, part: OffsetRange, count: int) -> list[OffsetRange]:
        """Cut a range into pieces of equal bytes; fewer if there are not enough offsets."""
        profile = self._profiles.get(part.tp)
        if profile is None or profile.bytes <= 0:
            return divide(part, count)
        first, size = profile.before(part.start), self.weight(part)
        cuts = {profile.offset_at(first + size * index / count) for index in range(1, count)}
        bounds = [part.start, *sorted(cut for cut in cuts if part.start < cut < part.end), part.end]
        return [OffsetRange(part.tp, start, end) for start, end in pairwise(bounds)]
