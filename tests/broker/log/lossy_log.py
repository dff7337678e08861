"""The common part of state machines that drive a log on a disk that loses unsynced data."""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.recovery.producer_replay import replay
from tests.crash.lossy_disk import Disk, Entry, RecordingOps

PRODUCERS = (-1, 5, 6)


class LossyLogMachine(RuleBasedStateMachine):
    """A log whose disk is recorded in `entries`. Each power failure begins a generation in a new directory."""

    config: ClassVar[LogConfig]

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="kafkalog-lossy-"))
        self.generation = 0
        self.entries: list[Entry] = []
        self.ops = RecordingOps(self.entries.append)
        self.directory.mkdir()
        self.log: Log
        # What the checkpoint file of the log directory says.
        self.recovery_point = 0

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    @property
    def directory(self) -> Path:
        return self.root / str(self.generation)

    @initialize()
    def begin(self) -> None:
        self.open(clean=False)

    @abstractmethod
    def open(self, *, clean: bool) -> None:
        """Open the directory as `log`, with the checkpoints."""

    def lose_what_was_not_forced(self, data: st.DataObject, moment: int | None = None) -> None:
        """Fail after some of the entries, by default after all; then open the log again."""
        before = self.directory
        self.generation += 1
        seed = data.draw(st.randoms(use_true_random=False))
        disk = Disk(str(before))
        disk.play(self.entries[:moment])
        disk.image(self.directory, seed.randrange)
        shutil.rmtree(before)
        self.entries.clear()
        self.ops.adopt(self.directory)
        self.open(clean=False)

    def replayed_producers(self) -> ProducerStateManager:
        """Return the producer state that results from the log's batches."""
        fresh = ProducerStateManager(str(self.log.dir), self.config.producer_id_expiration_ms)
        fresh.end_offset = self.log.segments[0].base_offset
        replay(self.log.segments, fresh, self.log.log_end_offset)
        return fresh
