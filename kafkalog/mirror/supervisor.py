"""Run a mirror: a worker, again and again, and beside it what is done now and then.

A worker that fails is thrown away. The next one begins from what the target has, after a pause that grows while workers
fail at once. Only what no time mends ends the process: properties that cannot be used, a refused login, missing rights.
"""

from __future__ import annotations

import logging
import threading
import time

from kafkalog.client.admin import Admin
from kafkalog.client.errors import AuthenticationError, ConfigError
from kafkalog.mirror.housekeeping import Housekeeping, Job
from kafkalog.mirror.progress import Progress
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics import TopicFollower
from kafkalog.mirror.worker import Worker
from kafkalog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
CALM_S = 60.0
"""A worker that has lasted this long was no failure from its beginning."""
_HOPELESS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REPLICATION_FACTOR,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def is_hopeless(error: BaseException | None) -> bool:
    """Tell whether an error, or one that it was raised from, stays whatever is tried."""
    while error is not None:
        if isinstance(error, ConfigError | AuthenticationError):
            return True
        if isinstance(error, KafkaError) and error.code in _HOPELESS:
            return True
        error = error.__cause__
    return False


def run(settings: MirrorSettings, progress: Progress, stop: threading.Event) -> None:
    """Mirror until `stop` is set.

    Raises:
        Exception: An error that no time mends.
    """
    with (
        Admin(settings.source_client) as source,
        Admin(settings.target_client) as target,
        Housekeeping(_jobs(settings, progress, source, target)),
    ):
        _run_workers(settings, progress, stop)


def _jobs(settings: MirrorSettings, progress: Progress, source: Admin, target: Admin) -> list[Job]:
    """List what is done beside the records; of several processes, by the one that has a topic's first partition."""
    follower = TopicFollower(settings, source, target)
    jobs: list[Job] = []
    if settings.sync_configs:
        interval = settings.sync_configs_interval
        jobs.append(Job("copying configurations", interval, lambda: follower.sync_configs(progress.first_topics())))
    return jobs


def _run_workers(settings: MirrorSettings, progress: Progress, stop: threading.Event) -> None:
    pause = PAUSE_S
    while not stop.is_set():
        began = time.monotonic()
        try:
            with Worker(settings, progress) as worker:
                worker.run(stop)
        except Exception as error:
            if is_hopeless(error):
                raise
            progress.restarts += 1
            if time.monotonic() - began > CALM_S:
                pause = PAUSE_S
            logger.warning("beginning again in %.1f s, behind the last transaction: %s", pause, error)
            stop.wait(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)
