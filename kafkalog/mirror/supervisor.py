"""Run a mirror: workers, one after another, and the regular jobs beside them.

A worker that fails is thrown away. The next one begins from what the target has, after a pause that grows while workers
fail at once. Only errors that another try does not mend end the process: properties that cannot be used, a refused
login, missing rights.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack

from kafkalog.backoff import Backoff
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConfigError
from kafkalog.mirror import clients
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.worker import Worker
from kafkalog.mirror.housekeeping.checkpoints import Checkpoints
from kafkalog.mirror.housekeeping.group_positions import GroupPositions
from kafkalog.mirror.housekeeping.heartbeats import Heartbeats
from kafkalog.mirror.housekeeping.jobs import Housekeeping, Job
from kafkalog.mirror.housekeeping.marks import Marks
from kafkalog.mirror.keeping.errors import KeepingError
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.acls import AclFollower
from kafkalog.mirror.topics.follower import TopicFollower
from kafkalog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
CALM_S = 60.0
"""A worker that has lasted this long was no failure from its beginning."""
ANSWER_MS = 5_000
"""The time for which a new client tries the first request to a cluster."""
NEW_TOPICS_S = 5.0
"""The interval at which topics are looked for whose configurations or ACLs were not copied yet by this process."""
_HOPELESS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


def is_hopeless(error: BaseException | None) -> bool:
    """Tell whether another try does not mend an error, or one that it was raised from."""
    while error is not None:
        if isinstance(error, ConfigError | AuthenticationError | KeepingError):
            return True
        if isinstance(error, KafkaError) and error.code in _HOPELESS:
            return True
        error = error.__cause__
    return False


def pause_after(failures: int, chance: random.Random) -> float:
    """Return the pause after so many failures in a row: between half and one and a half of that of `Backoff`.

    So the mirrors of both directions, which give way to each other when they begin with the same topic, try again at
    different times.
    """
    return Backoff(PAUSE_S, LONGEST_PAUSE_S).pause(failures, chance) * chance.uniform(0.5, 1.5)


def run(
    settings: MirrorSettings, progress: Progress, stop: threading.Event, chance: random.Random | None = None
) -> None:
    """Mirror until `stop` is set; `chance` spreads the pauses after failures.

    Raises:
        Exception: An error that another try does not mend.
    """
    chance = chance or random.Random()
    _wait_for_clusters(settings, stop, chance)
    if stop.is_set():
        return
    housekeeping = Housekeeping()
    try:
        with ExitStack() as stack:
            housekeeping.start(_jobs(settings, progress, stack))
            # Before the connections are closed: a job that waits for a broker ends with them.
            stack.callback(housekeeping.end)
            _run_workers(settings, progress, stop, chance)
    finally:
        housekeeping.join()


def _wait_for_clusters(settings: MirrorSettings, stop: threading.Event, chance: random.Random) -> None:
    """Wait until both clusters answer, before anything else complains of one that does not.

    Raises:
        Exception: An error that another try does not mend.
    """
    for kind, alias, client in (
        ("source", settings.source, settings.source_client),
        ("target", settings.target, settings.target_client),
    ):
        _wait_for(f"the {kind} {alias} ({client['bootstrap.servers']})", client, stop, chance)


def _wait_for(name: str, client: Mapping[str, str], stop: threading.Event, chance: random.Random) -> None:
    def report(error: Exception) -> None:
        logger.warning("%s cannot be reached, and is tried again: %s", name, error)

    quick = {"request.timeout.ms": str(ANSWER_MS), "default.api.timeout.ms": str(ANSWER_MS)}
    config = ClientConfig.from_dict({**client, **quick})
    failures = 0
    while not stop.is_set():
        try:
            with Cluster(config, on_outage=report) as cluster:
                cluster.metadata(refresh=True)
            return
        except Exception as error:
            if is_hopeless(error):
                raise
            failures += 1
            wait = pause_after(failures, chance)
            # The time is only up if no broker has answered, which is reported already.
            level = logging.INFO if isinstance(error, ClientTimeoutError) else logging.WARNING
            logger.log(level, "%s is tried again in %.1f s: %s", name, wait, error)
            stop.wait(wait)


def _jobs(settings: MirrorSettings, progress: Progress, stack: ExitStack) -> list[Job]:
    """List the regular jobs; each is done for the partitions that this process has."""
    source = stack.enter_context(clients.admin(settings.source_client))
    target = stack.enter_context(clients.admin(settings.target_client))
    jobs: list[Job] = []
    if settings.sync_configs:
        follower = TopicFollower(settings, source, target)
        often = min(NEW_TOPICS_S, settings.sync_configs_interval)
        jobs.append(Job("copying configurations", often, lambda: follower.follow_configs(progress.first_topics())))
    if settings.sync_acls:
        acls = AclFollower(settings.naming.remote, settings.sync_acls_interval, source, target)
        often = min(NEW_TOPICS_S, settings.sync_acls_interval)
        jobs.append(Job("copying ACLs", often, lambda: acls.follow(progress.first_topics())))
    if not (settings.emit_checkpoints or settings.emit_heartbeats):
        return jobs
    producer = stack.enter_context(clients.plain_producer(settings.target_client))
    if settings.emit_heartbeats:
        beat = Heartbeats(settings.source, settings.target, settings.replication_factor, target, producer).beat
        jobs.append(Job("heartbeats in the target", settings.heartbeats_interval, beat))
    if settings.emit_heartbeats and settings.emit_heartbeats_in_source:
        other = stack.enter_context(clients.plain_producer(settings.source_client))
        beat = Heartbeats(settings.target, settings.source, settings.replication_factor, source, other).beat
        jobs.append(Job("heartbeats in the source", settings.heartbeats_interval, beat))
    if settings.emit_checkpoints:
        checkpoints = Checkpoints(settings, progress, source, target, producer)
        jobs.append(Job("checkpoints of groups", settings.checkpoints_interval, checkpoints.emit))
        if settings.sync_groups:
            interval = settings.sync_groups_interval
            marks = Marks(settings, progress, producer) if settings.brings_groups_back else None
            groups = GroupPositions(settings, progress, (source, target), checkpoints, marks)
            jobs.append(Job("bringing groups into the target", interval, groups.synchronize))
            if marks is not None:
                jobs.append(Job("bringing groups back into the source", interval, groups.bring_back))
    return jobs


def _run_workers(settings: MirrorSettings, progress: Progress, stop: threading.Event, chance: random.Random) -> None:
    failures = 0
    while not stop.is_set():
        began = time.monotonic()
        try:
            with Worker(settings, progress) as worker:
                worker.run(stop)
        except Exception as error:
            if is_hopeless(error):
                raise
            progress.restarts += 1
            failures = 1 if time.monotonic() - began > CALM_S else failures + 1
            wait = pause_after(failures, chance)
            logger.warning("beginning again in %.1f s, behind what the target has: %s", wait, error)
            stop.wait(wait)
