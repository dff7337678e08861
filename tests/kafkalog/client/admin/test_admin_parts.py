"""Test that `Admin` has a part for each subject."""

from __future__ import annotations

import pytest

from kafkalog.client import admin
from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig


def test_the_parts_share_the_connections() -> None:
    with Admin({"bootstrap.servers": "127.0.0.1:1"}) as client:
        parts = (client.acls, client.groups, client.quotas, client.replicas, client.transactions)
        assert all(part.cluster is client.cluster for part in parts)
        assert client.groups is client.groups
        assert client.cluster.config == ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1"})


@pytest.mark.parametrize("name", admin.__all__)
def test_every_exported_name_can_be_imported(name: str) -> None:
    assert getattr(admin, name) is not None
