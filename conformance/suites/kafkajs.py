"""kafkajs: its tests are not in its npm package."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.model import LeftOut, Suite, Target, TestResult
from tests.peers.cache import MissingPeerError
from tests.peers.node import KAFKAJS


def run(target: Target, work: Path, rules: Sequence[LeftOut]) -> list[TestResult]:
    """Nothing to run from."""
    raise MissingPeerError("missing because its tests are not in the npm package")


SUITE = Suite(name="kafkajs", version=KAFKAJS, tests="Its broker and cluster specs.", run=run)
