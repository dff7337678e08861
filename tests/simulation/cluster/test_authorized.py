"""Test that a cluster keeps its promises while nobody has more rights than he needs."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.running import run
from tests.support.amount import mostly_exhaustive

IN_A_PROCESS = 3


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", mostly_exhaustive(range(0, 30, IN_A_PROCESS), 1))
def test_brokers_need_cluster_action_and_clients_their_rights(first: int) -> None:
    code, said = run("authorized", first, IN_A_PROCESS)
    assert code == 0, f"python -m tests.simulation.cluster.authorized {first} {IN_A_PROCESS}\n{said}"
