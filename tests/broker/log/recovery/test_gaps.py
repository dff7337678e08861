"""A crash loses nothing of a log whose offsets have gaps, wherever a segment begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from broker.log.append.mirrored import prepare_mirrored
from broker.log.log import Log
from broker.log.log_config import LogConfig
from tests.broker.log.support import NOW, batch, open_log, stored

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=1, segment_index_bytes=1200, file_delete_delay_ms=0)
MIRROR = replace(CONFIG, mirror_source="A")
HELD = replace(CONFIG, is_held=True)
NEAR = list(range(10, 200, 10))
FAR = [*NEAR, 1 << 40, (1 << 40) + 10]
"""The last ones are too far from those before for the index of one segment."""


def mirror(log: Log, offset: int) -> None:
    prepared = prepare_mirrored(batch(3, base_offset=offset), log.config, "t-0")
    log.append_mirrored(prepared, log.log_end_offset, leader_epoch=0, now_ms=NOW)


def follow(log: Log, offset: int) -> None:
    log.append_as_follower(batch(3, base_offset=offset, leader_epoch=0), now_ms=NOW, leader_epoch=0)


@pytest.mark.parametrize(
    ("append", "config", "offsets"),
    [
        (mirror, MIRROR, NEAR),
        (mirror, MIRROR, FAR),
        (follow, MIRROR, NEAR),
        (follow, MIRROR, FAR),
        (follow, CONFIG, NEAR),
    ],
    ids=["leader", "leader, far", "follower", "follower, far", "follower of another topic"],
)
def test_a_crash_loses_no_batch_behind_a_gap(
    tmp_path: Path, append: Callable[[Log, int], None], config: LogConfig, offsets: list[int]
) -> None:
    log = open_log(tmp_path, config)
    for offset in offsets:
        append(log, offset)
    assert len(log.segments) > 3
    again = open_log(tmp_path, config)
    assert [row.base_offset for row in stored(again)] == offsets
    assert again.log_end_offset == offsets[-1] + 3
    for offset in offsets:
        assert stored(again, offset)[0].base_offset == offset


def test_segments_begin_where_the_ones_before_end(tmp_path: Path) -> None:
    log = open_log(tmp_path, MIRROR)
    for offset in NEAR:
        mirror(log, offset)
    for before, segment in pairwise(log.segments):
        assert segment.base_offset == before.next_offset()
        assert stored(log, segment.base_offset)[0].base_offset > segment.base_offset


@pytest.mark.parametrize("config", [MIRROR, HELD], ids=["mirror", "a configuration that cannot be read"])
def test_a_mirror_of_before_left_gaps_between_segments(tmp_path: Path, config: LogConfig) -> None:
    """Logs on disk may have been written so."""
    open_log(tmp_path, MIRROR).close()
    for offset in NEAR:
        (tmp_path / "t-0" / f"{offset:020}.log").write_bytes(batch(3, base_offset=offset, leader_epoch=0))
    again = open_log(tmp_path, config)
    assert [row.base_offset for row in stored(again)] == NEAR
