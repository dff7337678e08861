"""The nodes that get access lists."""

from __future__ import annotations

import pytest

from kafkalog.zookeeper.over_kazoo import access_list
from kafkalog.zookeeper.security import is_restricted, is_sensitive


def test_which_nodes_are_restricted() -> None:
    """The rules of `ZkData.defaultAcls`."""
    assert not is_restricted("/consumers")
    assert is_restricted("/consumers/group")
    assert [is_sensitive(each) for each in ("/config/users/alice", "/config/brokers", "/config/topics/t")] == [
        True,
        True,
        False,
    ]
    assert not is_sensitive("/brokers/ids/1")


@pytest.mark.parametrize(
    ("path", "permissions"), [("/consumers/g", [31, 1]), ("/config/users/alice", [31]), ("/consumers", None)]
)
def test_access_lists(path: str, permissions: list[int] | None) -> None:
    entries = access_list(path, set_acl=True)
    assert (None if entries is None else [each.perms for each in entries]) == permissions
    assert access_list(path, set_acl=False) is None
