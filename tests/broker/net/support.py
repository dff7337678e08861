"""The acceptor of a broker in this process."""

from __future__ import annotations

from broker.net.acceptor import Acceptor
from tests.broker.replica.in_process import InProcess


def acceptor_of(broker: InProcess) -> Acceptor:
    found = broker.server.acceptor
    assert found is not None
    return found
