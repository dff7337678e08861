"""Test numbers of the protocol that stand for values."""

from __future__ import annotations

import pytest

from kafkalog.client.admin.configs import ConfigSource
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from kafkalog.protocol.code import Code

KINDS: list[type[Code]] = [AclOperation, AclPatternType, AclPermission, AclResourceType, ConfigSource]


@pytest.mark.parametrize("kind", KINDS)
def test_a_number_of_a_newer_broker_is_unknown(kind: type[Code]) -> None:
    assert kind(127) is kind["UNKNOWN"]
    assert [kind(int(each)) for each in kind] == list(kind)
    with pytest.raises(ValueError, match="text"):
        kind("text")  # type: ignore[arg-type]
