"""What a move does next, and what a start makes of what moves have left. Pure: values in, values out."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkalog.storage import names


class Extent(NamedTuple):
    """A file of the log as it is now.

    ``length`` is how many of its bytes count, None for all of a file that is written no more. ``stamp`` is the same as
    long as the bytes that were there are what they were. A file with ``reserve`` is preallocated to so many bytes.
    """

    length: int | None
    stamp: Hashable
    reserve: int = 0


class Copied(NamedTuple):
    """A file of the copy: so many bytes of the file that had this stamp; ``complete`` if that was all of it.

    ``reserve`` is what it is preallocated to.
    """

    length: int
    stamp: Hashable
    complete: bool = False
    reserve: int = 0


class Copy(NamedTuple):
    """Bytes to copy, from ``start`` up to ``end`` (None: the file's end); 0 begins the file anew."""

    name: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Round:
    """What the copy lacks: files to copy, in order, and files that the log does not have any more."""

    copies: Sequence[Copy]
    removals: Sequence[str]

    @property
    def is_empty(self) -> bool:
        return not self.copies and not self.removals

    @property
    def known_bytes(self) -> int:
        """Bytes to copy, but for those of files that are copied to their ends."""
        return sum(copy.end - copy.start for copy in self.copies if copy.end is not None)

    def is_tail(self, limit: int) -> bool:
        """Whether nothing is left but at most ``limit`` bytes of a few files.

        Those of unknown length are small: producer snapshots, and aborted transactions.
        """
        return not self.removals and len(self.copies) <= TAIL_FILES and self.known_bytes <= limit


def plan(wanted: Mapping[str, Extent], have: Mapping[str, Copied]) -> Round:
    """What makes ``have`` the files that are ``wanted``, in their order."""
    copies = []
    for name, extent in wanted.items():
        copied = have.get(name)
        start = 0
        if copied is not None and copied.stamp == extent.stamp:
            same = copied.complete if extent.length is None else extent.length == copied.length
            if same and extent.reserve == copied.reserve:
                continue
            if extent.length is None or extent.length >= copied.length:
                start = copied.length
        copies.append(Copy(name, start, extent.length))
    return Round(copies, [name for name in have if name not in wanted])


class Step(Enum):
    """What a move does next."""

    COPY = "copy"
    """Copy a round, while the log is flushed as ever."""
    SETTLE = "settle"
    """Hold flushes, copy a round and force the copy to the device."""
    CATCH_UP = "catch up"
    """Flushes are held and what was flushed is safe: copy a round more."""
    SWAP = "swap"
    """Let the copy take the log's place, now."""


TAIL_BYTES = 4 << 20
"""What the event loop copies itself, in a millisecond or two."""
TAIL_FILES = 20
"""Those of the newest segment, and of some that were begun meanwhile."""
NEARLY_THERE_BYTES = 64 << 20
"""What is copied while flushes are held, in part of a second."""
NEARLY_THERE_FILES = 32


def next_step(round_: Round, *, begun: bool = True, settled: bool = False) -> Step:
    """What to do where ``round_`` is lacking.

    Args:
        begun: whether a round was copied before; the first is copied at the pace that moves are allowed.
        settled: whether flushes are held and the copy is on the device up to the recovery point.
    """
    if settled:
        return Step.SWAP if round_.is_tail(TAIL_BYTES) else Step.CATCH_UP
    if not begun:
        return Step.COPY
    many = len(round_.copies) > NEARLY_THERE_FILES or round_.known_bytes > NEARLY_THERE_BYTES
    return Step.COPY if many else Step.SETTLE


# -- what a start finds ----------------------------------------------------------------------------------------


class Found(NamedTuple):
    """A directory of a partition: in which log directory, its name there, and the one it says it was moved from."""

    log_dir: str
    name: str
    is_future: bool
    moved_from: str | None


@dataclass(slots=True)
class Settlement:
    """What becomes of the directories that were found of one partition.

    Attributes:
        serve: is the partition's log.
        promote: a future copy that gets the name of a log before it is served.
        discard: are removed.
        resume: a copy whose move goes on, if its log is served.
    """

    serve: list[Found] = field(default_factory=list)
    promote: Found | None = None
    discard: list[Found] = field(default_factory=list)
    resume: Found | None = None


def settle(found: Sequence[Found], offline: Collection[str]) -> Settlement:
    """Tell which of one partition's directories is its log.

    More than one in ``serve`` is for the caller to refuse: no move leaves that.

    Args:
        offline: log directories that cannot be read now.
    """
    result = Settlement(serve=[each for each in found if not each.is_future])
    futures = [each for each in found if each.is_future]
    if len(result.serve) > 1:
        # Power failed before the old one's new name was safe. The new one was complete when it got its own.
        replaced = {each.moved_from for each in result.serve}
        kept = [each for each in result.serve if each.log_dir not in replaced]
        if kept:
            result.discard += [each for each in result.serve if each not in kept]
            result.serve = kept
    if not result.serve:
        # It is marked when it is complete, and its log gone when it has been replaced: unless that cannot be seen.
        complete = [each for each in futures if each.moved_from is not None and each.moved_from not in offline]
        if len(complete) == 1:
            result.promote = complete[0]
            futures.remove(complete[0])
    if futures:
        result.resume = futures[0]
        result.discard += futures[1:]
    if result.promote is not None and result.resume is not None:
        result.discard.append(result.resume)
        result.resume = None
    return result


def reached(wanted: Mapping[str, Extent], have: Mapping[str, Copied], end: int) -> int:
    """The offset before which the copy has everything; ``end`` where that is all there is.

    Args:
        wanted: the log's files, oldest segment first.
    """
    for name, extent in wanted.items():
        copied = have.get(name)
        if name.endswith(names.LOG) and (copied is None or copied.length < (extent.length or 0)):
            return names.offset_of(name) or 0
    return end
