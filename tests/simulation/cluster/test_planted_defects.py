"""Test the simulator itself: it finds defects that are planted into the brokers."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.planted import DEFECTS
from tests.simulation.cluster.running import run

QUICK = {"leaders acknowledge too early", "leaders out of the ISR", "coordinators take over no offsets"}


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive) for name in DEFECTS]
)
def test_it_is_found(name: str) -> None:
    code, said = run("planted", name)
    assert code == 0, said
