"""Test that a forked process neither uses nor harms the clients of the process that it was forked from."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.kafkalog.client.consumer.conftest import OURS
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, values

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("live", [OURS], indirect=True)]

SCRIPT = """
import json, os, sys
from kafkalog.client.admin import Admin
from kafkalog.client.consumer import Consumer

def is_refused(call):
    try:
        call()
    except RuntimeError as error:
        return "was forked from" in str(error)
    return False

def is_closed(descriptor):
    try:
        os.fstat(descriptor)
    except OSError:
        return True
    return False

properties, topic = json.loads(sys.argv[1]), sys.argv[2]
servers = {"bootstrap.servers": properties["bootstrap.servers"]}
admin = Admin(servers)
admin.list_topics()
with Consumer(properties) as consumer:
    consumer.subscribe([topic])
    while not consumer.poll(1.0, 1):
        pass
    member = consumer.group_metadata()
    shared = [slot.connection for client in (admin.cluster, consumer._cluster) for slot in client._slots.values()]
    shared += [connection for _, connection in consumer._fetcher._leaders._connections.values()]
    shared.append(consumer._coordinator.requests._connection)
    descriptors = [each.fileno() for each in shared if each is not None]
    assert len(descriptors) >= 3
    child = os.fork()
    if not child:
        good = False
        try:
            with consumer:
                good = all(map(is_closed, descriptors))
                for call in (consumer.poll, consumer.commit, consumer.unsubscribe, admin.list_topics):
                    good = is_refused(call) and good
                consumer.wakeup()
            admin.close()
            with Admin(servers) as own:
                good = topic in own.list_topics() and good
        finally:
            os._exit(0 if good else 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert topic in admin.list_topics()
    consumer.commit()
    while not consumer.poll(1.0, 1):
        pass
    assert consumer.group_metadata() == member
    assert consumer.metrics()["rebalance-total"] == 1
admin.close()
raise SystemExit(code)
"""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_forked_process_must_have_its_own_clients(live: Live, protocol: str) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(2))
    properties = {
        "bootstrap.servers": live.address,
        "group.id": live.group(),
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": protocol,
    }
    arguments = [sys.executable, "-c", SCRIPT, json.dumps(properties), topic]
    subprocess.run(arguments, timeout=DEADLINE_S, check=True)
