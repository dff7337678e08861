"""Changes of an ISR that the leader writes to ZooKeeper itself."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import pytest

from broker.member.isr.isr_nodes import IsrNodes
from broker.metadata.znodes import paths
from broker.metadata.znodes.topics import StateNode, decode_state, encode_state
from broker.replica.isr.keeper import IsrDecision, IsrProposal
from broker.runtime import Runtime
from kafkalog.protocol.errors import ErrorCode
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

PATH = paths.partition_state("t", 0)


@pytest.mark.parametrize("waits", [True, False])
def test_only_what_a_leader_waits_for_is_written(waits: bool) -> None:
    """A leader whose log is offline must not become the only member of the ISR."""

    async def main(loop: VirtualLoop) -> None:
        session = SimulatedSession(SimulatedEnsemble(loop, random.Random(1)), 6)
        parts = PATH.strip("/").split("/")
        for depth in range(1, len(parts)):
            await session.create("/" + "/".join(parts[:depth]), b"")
        await session.create(PATH, encode_state(StateNode(1, 4, (1, 2), 3, 0)))
        store = IsrNodes(cast(Runtime, type("OfLoop", (), {"loop": loop})()), 1, session)
        answers: list[IsrDecision | ErrorCode] = []
        store.submit(IsrProposal("t", 0, None, 4, 0, (1,)), answers.append, lambda: waits)
        while not answers:
            await asyncio.sleep(0.01)
            assert loop.time() < 60
        node = await session.get(PATH)
        assert node is not None
        found = decode_state("t", 0, node.data, node.stat.version)
        if waits:
            assert (answers, found.isr) == ([IsrDecision(1, 4, 1, (1,))], (1,))
        else:
            assert (answers, found.isr) == ([ErrorCode.OPERATION_NOT_ATTEMPTED], (1, 2))

    virtual_time.run(main)
