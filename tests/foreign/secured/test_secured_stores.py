"""Tests of stores that keytool has made, against Apache Kafka: both sides show a certificate and check the other's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from peers import require
from peers.brokers.secured_kafka import SecuredKafka
from peers.security import stores
from peers.security.stores import KEY_PASSWORD, STORE_PASSWORD

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]


def test_stores_of_every_kind(secured: SecuredKafka, tmp_path: Path) -> None:
    require(stores.missing())
    made = stores.make_stores(secured.certificates, tmp_path)
    pairs = [
        (made.trust_jks, made.key_jks),
        (made.trust_p12, made.key_p12),
        (made.trust_legacy_p12, made.key_legacy_p12),
    ]
    for trust, key in pairs:
        properties: dict[str, Any] = {
            "bootstrap.servers": secured.addresses["MTLS"],
            "security.protocol": "SSL",
            "ssl.truststore.location": trust,
            "ssl.truststore.password": STORE_PASSWORD,
            "ssl.keystore.location": key,
            "ssl.keystore.password": STORE_PASSWORD,
        }
        if key is made.key_jks:
            properties["ssl.key.password"] = KEY_PASSWORD
        with Admin(properties) as admin:
            assert admin.describe_cluster().brokers
