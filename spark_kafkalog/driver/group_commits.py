"""`commitGroup`: commits the offsets that a query has read to a consumer group, for lag tools.

The checkpoint stays the only truth of what Spark has read; only monitoring reads the offsets committed here. So a
commit has a short time limit, its failure is only a warning, and the next try comes after a pause.

When to commit: Spark calls `commit` for a batch while it plans the next one, and never for the last batch of a run.
But it begins every trigger with `latestOffset(start)`, and everything before `start` has been processed. So a batch
is committed at the trigger after it. The last one of Trigger.AvailableNow is, too, because Spark asks once more whether
anything is left. What a killed query had read is committed at its next start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkalog.client.cluster import Cluster
from spark_kafkalog.offsets import Offsets
from spark_kafkalog.options.source_options import SourceOptions

if TYPE_CHECKING:
    from kafkalog.client.admin.groups.offsets import GroupOffsets

logger = logging.getLogger(__name__)

PATIENCE_S = 1.0
"""The time that a trigger may wait for a commit."""
FIRST_PATIENCE_S = 5.0
"""The same for a query's first commit: a cluster's very first commit waits until the offsets topic is created."""
PAUSE_S = 60.0
"""Pause after a failed commit."""


class GroupProgress:
    """Commits positions to `commitGroup`; does nothing if the option is not set. Never raises."""

    def __init__(self, options: SourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._patience_s = FIRST_PATIENCE_S
        self._clock = clock
        self._cluster: Cluster | None = None
        self._group: GroupOffsets | None = None
        self._committed: Offsets | None = None
        self._not_before = float("-inf")
        self._warned = False

    def processed(self, offsets: Offsets) -> None:
        """Commit `offsets`: everything before them has been processed."""
        name = self._options.commit_group
        if name is None or offsets == self._committed or self._clock() < self._not_before:
            return
        patience_s, self._patience_s = self._patience_s, PATIENCE_S
        try:
            if self._group is None:
                # A late import, so that planners without a group start faster.
                from kafkalog.client.admin.groups.offsets import GroupOffsets

                self._cluster = Cluster(self._options.logged_in().client)
                self._group = GroupOffsets(self._cluster, name)
            self._group.commit(offsets, deadline=time.monotonic() + patience_s)
        except Exception as error:
            self._failed(name, error)
            return
        self._committed = dict(offsets)
        if self._warned:
            self._warned = False
            logger.warning("commitGroup: offsets are committed to group %s again", name)

    def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = self._group = None

    def _failed(self, name: str, error: Exception) -> None:
        self._not_before = self._clock() + PAUSE_S
        self.close()
        if not self._warned:
            self._warned = True
            logger.warning(
                "commitGroup: offsets are not committed to group %s, and lag tools do not see how far this query has "
                "read; the query is not affected, and it is tried again every %d seconds: %s",
                name,
                PAUSE_S,
                error,
            )
