"""Test that our brokers and those of Apache Kafka reach each other over TLS, each with a certificate."""

from __future__ import annotations

from pathlib import Path

import pytest

from peers import require
from peers.brokers import kafka
from peers.security import certificates
from peers.security.certificates import make_certificates
from tests.broker.member.mixed_cluster import OURS, THEIRS
from tests.broker.member.secured_mix import LISTENER, SecuredMix, running

pytestmark = [pytest.mark.peer, pytest.mark.timeout(400)]


def settings(directory: Path) -> dict[str, str]:
    """Return the settings of all brokers."""
    made = make_certificates(directory)
    return {
        f"{LISTENER}.ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(made.authority),
    }


@pytest.mark.usefixtures("foreign_programs")
def test_controllers_and_followers_of_both_sides(tmp_path: Path) -> None:
    require(kafka.missing(kafka.KAFKA_3))
    require(certificates.missing())
    values = [b"%d" % number for number in range(300)]
    with running(tmp_path, lambda address: SecuredMix(tmp_path, address, "SSL", settings(tmp_path))) as cluster:
        cluster.create_topics()
        cluster.write(values[:100])
        cluster.wait_in_sync()
        cluster.stop(THEIRS)
        cluster.wait_alive((2, OURS), (2, OURS))
        cluster.write(values[100:200])
        cluster.restart(THEIRS)
        cluster.wait_alive()
        cluster.stop(OURS)
        cluster.write(values[200:])
        cluster.restart(OURS)
        cluster.wait_alive()
        cluster.check_all_have(values)
        assert "Traceback" not in cluster.ours.logged()
