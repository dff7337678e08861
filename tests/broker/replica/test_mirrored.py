"""Test what the other parts of a broker learn of batches that keep the offsets of their source."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.log.append.mirrored import prepare_mirrored
from broker.log.segment.segment import Segment
from broker.metadata.model import PartitionState
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.batch import assign_offsets
from tests.broker.coordinator.support import Stored
from tests.support.wire import batch


def test_what_a_full_disk_took_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror goes on behind it, so it must not be hidden."""
    appended = 0

    def append(original: Callable[..., Any]) -> Callable[..., Any]:
        def until_full(self: Segment, *arguments: Any) -> Any:
            nonlocal appended
            if appended == 2:
                raise OSError(errno.ENOSPC, "No space left on device")
            appended += 1
            return original(self, *arguments)

        return until_full

    with Stored(tmp_path, {}) as stored:
        config = stored.replicas.topic_config({"kafkalog.mirror.source": "a"})
        one = PartitionState((0,), (0,), 0, 0)
        stored.replicas.host_partition("t", 0, uuid.UUID(int=1), one, config, is_new=True)
        partition = stored.replicas.require("t", 0)
        records = bytearray()
        for offset in range(4):
            one_record = batch([b"x"])
            assign_offsets(one_record, 0, offset, -1)
            records += one_record
        monkeypatch.setattr(Segment, "append", append(Segment.append))
        mirrored = prepare_mirrored(memoryview(records), partition.log.config, "t-0")
        with pytest.raises(KafkaStorageError, match="No space left"):
            stored.replicas.append_mirrored(partition, mirrored, 0, -1, stored.now)
        assert partition.log.log_end_offset == partition.high_watermark == 2
