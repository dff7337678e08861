"""Assignors of the coordinator, which decide the partitions of each member (`group.consumer.assignors`).

- `range`    neighbouring partitions of each topic
- `spec`     input and result of an assignor
- `uniform`  as even as possible, with few moves; the default
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.coordinator.group.kip848.assignors.range import assign_range
from broker.coordinator.group.kip848.assignors.spec import Assignor, AssignorError, GroupSpec, MemberSpec
from broker.coordinator.group.kip848.assignors.uniform import assign_uniform

__all__ = ["ASSIGNORS", "Assignor", "AssignorError", "GroupSpec", "MemberSpec"]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by name (`group.remote.assignor`)."""
