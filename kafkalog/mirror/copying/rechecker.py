"""Look again at what a worker leaves out, in a thread of its own: a slow cluster does not hold up the copying."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from kafkalog.client.closing import Closing
from kafkalog.mirror import clients
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import TopicFollower


class Rechecker(Closing):
    """A thread with connections of its own.

    Attributes:
        source, target: The clusters, by the thread's connections.
        follower: The topics of the mirror, by the thread's connections.
    """

    def __init__(self, settings: MirrorSettings) -> None:
        self.source, self.target = clients.admin(settings.source_client), clients.admin(settings.target_client)
        self.follower = TopicFollower(settings, self.source, self.target)
        self._pool = ThreadPoolExecutor(1, "mirror-recheck")

    def begin(self, check: Callable[[], None]) -> Future[None]:
        """Do a check as soon as those before it have ended."""
        return self._pool.submit(check)

    def close(self) -> None:
        """End the check that is under way, and the thread."""
        for admin in (self.source, self.target):
            admin.close()
        self._pool.shutdown(cancel_futures=True)
