"""Contents of the replicas' logs, seen from outside: batches by epoch and checksum, and the committed part."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import NamedTuple

from broker.log.log import Log
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.batch import iter_headers

READ_BYTES = 1 << 20


class Batch(NamedTuple):
    """A batch of a log. Those of one offset and epoch have the same bytes, whichever log they are in."""

    base: int
    last: int
    epoch: int
    crc: int


@dataclass(slots=True)
class Chain:
    """The batches of one replica's log, as far as they were looked at.

    It begins at offset 0. In place of batches that the log does not have any more, because records were deleted, it has
    the committed ones.
    """

    log: Log
    truncations: int
    batches: list[Batch] = field(default_factory=list)
    agreed: int = 0
    """The number of leading batches that are known to be the committed ones."""

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0


class Committed:
    """The batches of a partition that consumers may have seen."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.changes = 0

    @property
    def end(self) -> int:
        return self.batches[-1].last + 1 if self.batches else 0

    def extend(self, chain: Chain, high_watermark: int) -> None:
        """Take over what a leader has below its high watermark, after what is known already."""
        for batch in chain.batches[len(self.batches) :]:
            if batch.last >= high_watermark:
                break
            self.batches.append(batch)

    def between(self, first: int, end: int) -> list[Batch]:
        """Return the batches that lie between two offsets."""
        return [batch for batch in self.batches if batch.base >= first and batch.last < end]

    def forget(self, offset: int) -> None:
        """Forget the batches that end at an offset or after it."""
        while self.batches and self.batches[-1].last >= offset:
            self.batches.pop()
        self.changes += 1

    def missing_in(self, chain: Chain) -> Batch | None:
        """Return the first batch that a log should have and has not."""
        mine, theirs = self.batches, chain.batches
        chain.agreed = min(chain.agreed, len(mine), len(theirs))
        while chain.agreed < len(mine):
            at = chain.agreed
            if at >= len(theirs) or theirs[at] != mine[at]:
                return mine[at]
            chain.agreed += 1
        return None


class Chains:
    """The chains of all replicas of all machines, brought up to date by looking at the logs.

    Attributes:
        contradictions: batches that differ from others of the same offset and epoch, once they are found.
    """

    def __init__(self) -> None:
        self._chains: dict[tuple[int, str, int], Chain] = {}
        self._known: dict[tuple[str, int, int], Batch] = {}
        self.contradictions: list[str] = []

    def look(self, machine: int, log: Log, identity: str, committed: Committed) -> Chain:
        """Return the chain of a replica, as far as its log can be read.

        `identity` names the partition of one incarnation of its topic, of which `committed` is known.
        """
        key = (machine, log.topic, log.partition)
        chain = self._chains.get(key)
        if chain is None or chain.log is not log or chain.truncations != log.truncations:
            chain = self._chains[key] = Chain(log, log.truncations)
        if chain.end < log.log_end_offset > log.log_start_offset:
            try:
                self._read_on(chain, machine, identity, committed)
            except KafkaStorageError as error:
                # The simulated disk has failed, and this is the first read since.
                if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EIO:
                    raise
        return chain

    def _read_on(self, chain: Chain, machine: int, identity: str, committed: Committed) -> None:
        log = chain.log
        while chain.end < log.log_end_offset:
            data = log.read(max(chain.end, log.log_start_offset), READ_BYTES).read()
            before = len(chain.batches)
            for _, header in iter_headers(data):
                batch = Batch(header.base_offset, header.last_offset, header.partition_leader_epoch, header.crc)
                if chain.end < batch.base <= log.log_start_offset:
                    chain.batches += committed.between(chain.end, batch.base)
                if batch.base != chain.end:
                    self.contradictions.append(f"{identity} on {machine} has {batch} after offset {chain.end}")
                    return
                chain.batches.append(batch)
                known = self._known.setdefault((identity, batch.base, batch.epoch), batch)
                if known != batch:
                    self.contradictions.append(
                        f"{identity}: {batch} on {machine} has the offset and epoch of {known} (I2, I3)"
                    )
            if len(chain.batches) == before:
                self.contradictions.append(f"{identity} on {machine}: nothing can be read at {chain.end} of {log}")
                return

    def epochs_at(self, identity: str, offset: int) -> list[int]:
        """Return the epochs of all batches that were ever seen at an offset, in whichever log."""
        return [
            batch.epoch
            for (name, _, _), batch in self._known.items()
            if name == identity and batch.base <= offset <= batch.last
        ]
