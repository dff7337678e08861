"""Decide the next step of a move, and how the broker's start settles the directories that moves left. Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kafkalog.storage import names


class Extent(NamedTuple):
    """Describe a file of the log as it is now.

    `length` is how many of its bytes count; None means all bytes of a file that is no longer written. `stamp` stays
    the same as long as the existing bytes do not change. A file with `reserve` is preallocated to so many bytes.
    """

    length: int | None
    stamp: Hashable
    reserve: int = 0


class Copied(NamedTuple):
    """Describe a file of the copy.

    It has `length` bytes of the file that had this `stamp`, and is `complete` if that was all of it. `reserve`
    is the size to which it is preallocated.
    """

    length: int
    stamp: Hashable
    complete: bool = False
    reserve: int = 0


class Copy(NamedTuple):
    """Name bytes to copy, from `start` up to `end` (None: the file's end). 0 begins the file anew."""

    name: str
    start: int
    end: int | None


@dataclass(frozen=True, slots=True)
class Round:
    """Hold what the copy lacks: the files to copy, in order, and the files that the log no longer has."""

    copies: Sequence[Copy]
    removals: Sequence[str]

    @property
    def is_empty(self) -> bool:
        return not self.copies and not self.removals

    @property
    def known_bytes(self) -> int:
        """Bytes to copy, without those of files that are copied to their ends."""
        return sum(copy.end - copy.start for copy in self.copies if copy.end is not None)

    def is_tail(self, limit: int) -> bool:
        """Return whether at most `limit` bytes of a few files are left.

        Files of unknown length are small: producer snapshots and transaction indexes.
        """
        return not self.removals and len(self.copies) <= TAIL_FILES and self.known_bytes <= limit


def plan(wanted: Mapping[str, Extent], have: Mapping[str, Copied]) -> Round:
    """Return the round that turns the files in `have` into the `wanted` files, in their order."""
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
    """Name what a move does next."""

    COPY = "copy"
    """Copy a round while the log is flushed as usual."""
    SETTLE = "settle"
    """Hold flushes, copy a round and force the copy to the device."""
    CATCH_UP = "catch up"
    """Copy one more round; flushes are held, and what was flushed is safe in the copy."""
    SWAP = "swap"
    """Let the copy take the log's place now."""


TAIL_BYTES = 4 << 20
"""Bytes that the event loop's thread copies itself, in a millisecond or two."""
TAIL_FILES = 20
"""Files that the event loop's thread copies: those of the newest segment, and of some that were begun meanwhile."""
NEARLY_THERE_BYTES = 64 << 20
"""Bytes that are copied while flushes are held, in a fraction of a second."""
NEARLY_THERE_FILES = 32


def next_step(round_: Round, *, begun: bool = True, settled: bool = False) -> Step:
    """Return what to do when the copy lacks `round_`.

    Args:
        begun: whether a round was copied before. The first round is copied at the rate that moves are allowed.
        settled: whether flushes are held and the copy is on the device up to the recovery point.
    """
    if settled:
        return Step.SWAP if round_.is_tail(TAIL_BYTES) else Step.CATCH_UP
    if not begun:
        return Step.COPY
    many = len(round_.copies) > NEARLY_THERE_FILES or round_.known_bytes > NEARLY_THERE_BYTES
    return Step.COPY if many else Step.SETTLE


# -- what the broker's start finds -----------------------------------------------------------------------------


class Found(NamedTuple):
    """Describe a directory of a partition: its log directory, its name, and the log directory it was moved from."""

    log_dir: str
    name: str
    is_future: bool
    moved_from: str | None


@dataclass(slots=True)
class Settlement:
    """Say what to do with the directories that were found of one partition."""

    serve: list[Found] = field(default_factory=list)
    """The partition's log."""
    promote: Found | None = None
    """A future copy that gets the name of a log before it is served."""
    discard: list[Found] = field(default_factory=list)
    """Directories to remove."""
    resume: Found | None = None
    """A copy whose move goes on if its log is served."""


def settle(found: Sequence[Found], offline: Collection[str]) -> Settlement:
    """Decide which of one partition's directories is its log.

    No move leaves more than one directory in `serve`; the caller must refuse that.

    Args:
        offline: log directories that cannot be read now.
    """
    result = Settlement(serve=[each for each in found if not each.is_future])
    futures = [each for each in found if each.is_future]
    if len(result.serve) > 1:
        # Power failed before the new name of the old one was safe. The new one was complete when it got its name.
        replaced = {each.moved_from for each in result.serve}
        kept = [each for each in result.serve if each.log_dir not in replaced]
        if kept:
            result.discard += [each for each in result.serve if each not in kept]
            result.serve = kept
    if not result.serve:
        # A complete copy is marked, and its log is gone if the copy has replaced it. That cannot be seen if the log
        # directory from which it was moved is offline.
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
    """Return the offset before which the copy has everything; `end` if it has all segments.

    Args:
        wanted: the log's files, oldest segment first.
        end: the log end offset.
    """
    for name, extent in wanted.items():
        copied = have.get(name)
        if name.endswith(names.LOG) and (copied is None or copied.length < (extent.length or 0)):
            return names.offset_of(name) or 0
    return end
