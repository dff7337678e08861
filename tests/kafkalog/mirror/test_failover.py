"""Drills: a group goes over to the target when the source is killed, and back when it is there again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, StartMirror
from tests.kafkalog.mirror.drilling import LEAST, GroupDrill
from tests.kafkalog.mirror.housekeeping.support import ON
from tests.support.kafkalog_broker import KafkalogBroker


class Brokers(NamedTuple):
    """A source that can be killed, and a target."""

    source: KafkalogBroker
    target: KafkalogBroker


@pytest.fixture
def brokers(processes: None, tmp_path: Path) -> Iterator[Brokers]:
    with KafkalogBroker(tmp_path / "a", AT_ONCE) as source, KafkalogBroker(tmp_path / "b", AT_ONCE) as target:
        yield Brokers(source, target)


@pytest.fixture
def clusters(brokers: Brokers) -> Clusters:
    return Clusters(brokers.source.bootstrap, brokers.target.bootstrap)


@pytest.mark.parametrize("mirror_dies", [False, True], ids=["", "the mirror, too"])
@pytest.mark.parametrize("naming", ["default", "identity"])
@pytest.mark.parametrize("offsets", ["translate", "keep"])
def test_a_group_goes_over_and_back(
    brokers: Brokers,
    start_mirror: StartMirror,
    alias: str,
    clusters: Clusters,
    offsets: str,
    naming: str,
    mirror_dies: bool,
) -> None:
    """It misses nothing, and repeats at most what it had not committed."""
    drill = GroupDrill(clusters, alias, naming)
    properties = {"groups": drill.group, "replication_offsets": offsets, "replication_policy_class": naming, **ON}
    mirror = start_mirror(drill.topic, **properties)
    drill.write()
    drill.read_in_source(mirror)

    brokers.source.kill()
    if mirror_dies:
        mirror.stop()
    drill.read_in_target()

    brokers.source.start()
    if mirror_dies:
        mirror = start_mirror(drill.topic, **properties)
    drill.write(LEAST // 2, seed=8)
    drill.read_the_rest(mirror)
