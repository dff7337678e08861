"""A broker: starts and stops its parts in order.

Start: log directories are locked, the cluster's metadata is read, logs are opened (and recovered after an unclean
stop), and only then is the first connection accepted. Stop: no new connections are accepted, pending responses are
sent, logs are flushed and closed, and the clean-shutdown marker is written last. A start that fails once the logs are
opened ends in the same way.

What differs between a broker that is a cluster of its own and a member of a cluster is the mode's (`broker.modes`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker.api.dispatcher import ApiDispatcher
from broker.assembly import assemble
from broker.cluster_links import login_of
from broker.config.definition import ConfigError
from broker.config.listeners import TLS_PROTOCOLS, Endpoint
from broker.config.server import BrokerConfig
from broker.config.stored_topic import read_topic_config
from broker.controller.configs import effective_config
from broker.gates import Gates
from broker.log.cleaner.log_cleaner import LogCleaner
from broker.log.directories.log_dir import LogDirUnusableError
from broker.log.files.open_files import OpenFiles
from broker.log.log_manager import LogManager
from broker.log.producer_state.producer_expiry import remove_expired
from broker.log.retention.retention_policy import RetentionPolicy, RetentionPolicyError, load_policy
from broker.log.retention.retention_turns import retain
from broker.metadata.cache import MetadataCache
from broker.metadata.model import BrokerRegistration, ClusterState
from broker.modes.cluster import ClusterMode
from broker.modes.lone import LoneMode
from broker.modes.mode import Mode
from broker.net.acceptor import Acceptor
from broker.net.authentication.counts import AuthenticationCounts
from broker.net.disk_reads import DiskReads, on_workers
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from kafkalog.java_properties import told_of_hidden

if TYPE_CHECKING:
    from broker.metrics.endpoint import MetricsEndpoint
    from broker.net.tls.listeners import TlsListeners

logger = logging.getLogger(__name__)

FLUSH_CHECK_SECONDS = 1.0
"""The longest interval between checks for logs that are due for a flush; log.flush.scheduler.interval.ms may shorten
it.

A rolled segment is therefore flushed soon even if that key is large.
"""
MIN_INTERVAL = 0.001
DELETION_CHECK_SECONDS = 1.0
CERTIFICATE_CHECK_SECONDS = 10.0
"""The interval at which the files of certificates are looked at."""
MIN_OPEN_FILES = 16
"""The smallest limit of open segments and indexes, whatever the configuration says."""


SETTLE_S = 1.0
"""Handlers of requests have this long at least to end when the broker stops, though all responses were waited for."""


class Server:
    """A broker. `start` and `stop` run on one event loop.

    Attributes:
        failed: set when every log directory has failed. The broker is then useless, and its process should end.

    Raises (from `start`):
        ConfigError: the configuration cannot be used as it is.
        LogDirLockedError: another broker uses a log directory.
        LogDirUnusableError: no log directory can be used.
        MetadataError: the stored registry is damaged.
        OSError: a directory cannot be used.
    """

    def __init__(self, config: BrokerConfig, runtime: Runtime) -> None:
        self.config = config
        self.runtime = runtime
        self.endpoints: list[Endpoint] = []
        self._background: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        loop = self.runtime.loop
        self._loop = loop
        self._run = self.runtime.workers.run
        self.failed = asyncio.Event()
        for name in self.config.unknown:
            logger.warning("%s is not a known configuration", name)
        if self.config.hidden:
            logger.warning("configurations: %s", told_of_hidden(self.config.hidden))
        if self.config.ineffective:
            logger.info("configurations without effect here: %s", ", ".join(self.config.ineffective))
        self.tls = self._make_tls()
        self.acceptor: Acceptor | None = None
        self.metrics: MetricsEndpoint | None = None
        self._has_settled = self._is_assembled = False
        self.gates = Gates(self.config)
        if self.config.is_member:
            # Found at once, not after the logs were loaded.
            login_of(self.config)
        allowed = self.config["kafkalog.log.max.open.files"]
        self.logs = LogManager(
            self.config.log_dirs,
            self.config.log_config({}),
            clock=self.runtime.now_ms,
            num_recovery_threads=self.config["num.recovery.threads.per.data.dir"],
            ops=self.runtime.files,
            open_files=OpenFiles(None if allowed == -1 else max(MIN_OPEN_FILES, allowed)),
            seconds=self.runtime.seconds,
            make_lock=self.runtime.workers.make_lock,
            make_executor=self.runtime.workers.executor,
            on_directory_failure=self._directory_failed,
        )
        self.mode: Mode = self._make_mode()
        try:
            self.logs.retention_policy = self._retention_policy()
            await self._open(loop)
        except BaseException:
            try:
                await self._abandon()
            except Exception as error:
                # The reason of the failed start says more.
                logger.exception("the start that failed could not be undone: %s", error)
            raise

    def _make_tls(self) -> TlsListeners | None:
        """Read the certificates of listeners, if one of them speaks TLS.

        Raises:
            ConfigError: they cannot be used.
        """
        if not any(endpoint.protocol in TLS_PROTOCOLS for endpoint in self.config.listeners):
            return None
        # Only who speaks TLS needs it, and the client's code that reads stores of certificates.
        from broker.net.tls.listeners import TlsListeners

        return TlsListeners(self.config, self.runtime.loop, self.runtime.seconds, self.runtime.now_ms)

    def _make_mode(self) -> Mode:
        config, runtime, tls = self.config, self.runtime, self.tls
        if not config.is_member:
            return LoneMode(config, runtime, self.logs)
        between = config.inter_broker_listener
        if tls is None or between not in tls.by_name:
            return ClusterMode(config, runtime, self.logs)
        from broker.net.tls.dialer import TlsDialer

        dialer = TlsDialer(runtime.loop, runtime.network, lambda: tls.client_context(between))
        return ClusterMode(config, runtime, self.logs, dialer)

    async def _abandon(self) -> None:
        """Undo what `start` has done. The next start needs recovery only if this one has needed it and not ended it."""
        self.logs.stop_loading()
        if self._is_assembled:
            await self._close()
        else:
            await self.mode.close()
        # Work goes on though its caller was cancelled. Until it ends, nobody else may use the log directories.
        self.runtime.workers.close(wait=True)
        if self._is_assembled:
            return
        if self.logs.is_loaded:
            # What recovery has found is stored when the mode has loaded, such as new leader epochs.
            self.logs.shutdown(after_unclean=self._has_settled)
        else:
            self.logs.unlock()

    def _retention_policy(self) -> RetentionPolicy:
        key = "kafkalog.log.retention.policy.class"
        try:
            return load_policy(self.config[key])
        except RetentionPolicyError as error:
            raise ConfigError(f"Invalid value {self.config[key]} for configuration {key}: {error}") from error

    async def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        config, mode = self.config, self.mode
        state, effective = await self._load_logs()
        self.replicas = ReplicaManager(self.runtime, self.broker_id, effective, self.logs)
        for topic in {log.topic for log in self.logs}:
            self.replicas.config_faults.read(topic, mode.topic_config(topic) or {})
        cache = MetadataCache(state, self._is_offline, self.runtime.loop.time)
        self.store.subscribe(cache.update)
        self.replicas.is_elsewhere = cache.has
        applier = ReplicaApplier(self.replicas, mode.topic_config)
        member = mode.join(self.replicas, cache, applier)
        self.broker = assemble(
            config,
            self.broker_id,
            self.store,
            cache,
            self.replicas,
            applier,
            member=member,
            controller=mode.controller,
            log_starts_changed=lambda: self._soon(self.logs.checkpoints.write_log_start_offsets),
        )
        if self.tls is not None:
            # Stores that were set while the broker ran before.
            await self._run(self.tls.refresh, effective)
            self.broker.configs.stores = _Stores(self.tls, self._run, lambda: self.broker.config)
        self.dispatcher = ApiDispatcher(self.broker)
        self.cleaner = self._make_cleaner(loop)
        self._is_assembled = True
        self.broker.publisher.tell_faults(state)
        await mode.host(applier)
        if not self.logs.online_dirs:
            raise LogDirUnusableError(self.all_failed)
        self.acceptor = Acceptor(
            loop,
            self.runtime.network,
            lambda: self.broker.config,
            self.dispatcher,
            self.broker.connection_rates,
            DiskReads(on_workers(self.runtime.workers)),
            self.broker.quota_clock,
            self.gates,
            self.tls,
        )
        self.gates.open(self.broker, self.dispatcher, self.acceptor.memory)
        await self.gates.prepare(self.runtime)
        self.endpoints = self.acceptor.bind()
        await mode.register(tuple(map(config.advertised_endpoint, self.endpoints)))
        logs = {log.topic: log for log in (self.broker.groups.log, self.broker.transactions.log)}
        for topic, count in (await mode.partition_counts(logs)).items():
            logs[topic].count(count)
        self._start_background()
        self.broker.quota_controller.install()
        self._keep(loop.create_task(self.broker.quota_controller.look_up_hosts()))
        self.broker.groups.start()
        self.broker.transactions.start()
        self._serve_metrics()
        if self.broker.tokens is not None:
            await self.broker.tokens.learn()
        self.acceptor.start()

    async def _load_logs(self) -> tuple[ClusterState, BrokerConfig]:
        """Load the logs; return what is known of the cluster then, and the broker's configuration in it."""
        state = await self.mode.open()
        self.broker_id, self.store = self.mode.broker_id, self.mode.store
        before = effective_config(self.config, state, self.broker_id)
        self.logs.default_config = before.log_config({})
        configs = {
            name: before.stored_log_config(read_topic_config(topic.config)) for name, topic in state.topics.items()
        }
        await self._run(self.logs.load_all, configs)
        state = await self.mode.loaded()
        self._has_settled = True
        # Loading may take minutes. Nobody was told of what has changed meanwhile.
        effective = effective_config(self.config, state, self.broker_id, before)
        self.logs.default_config = effective.log_config({})
        configs = {
            name: effective.stored_log_config(read_topic_config(self.mode.topic_config(name) or {}))
            for name in {log.topic for log in self.logs}
        }
        for log in self.logs:
            if log.config != configs[log.topic]:
                log.config = configs[log.topic]
        return state, effective

    @property
    def registration(self) -> BrokerRegistration:
        """The registration of this broker in the cluster. Available once it accepts connections."""
        return self.mode.registration

    def _is_offline(self, broker_id: int, topic: str, index: int) -> bool:
        return broker_id == self.broker_id and not self.replicas.is_online(topic, index)

    def _authentications(self) -> dict[str, AuthenticationCounts]:
        """Return counts of handshakes of TLS and of logins, by listener. Any thread may call this."""
        counts = dict(self.gates.counts)
        for name, listener in ({} if self.tls is None else self.tls.by_name).items():
            counts[name] = listener.counts + counts[name] if name in counts else listener.counts
        return counts

    def _serve_metrics(self) -> None:
        address = self.config["kafkalog.metrics.listener"]
        if address is None:
            return
        # Imported only if metrics are served, because the library takes 30 ms to load.
        from broker.metrics.catalog import Sources
        from broker.metrics.endpoint import MetricsEndpoint

        acceptor = self.acceptor
        assert acceptor is not None
        sources = Sources(
            self.logs,
            self.replicas,
            self.replicas.counters,
            acceptor.count_by_listener,
            self.cleaner,
            self.broker.groups,
            self.broker.transactions,
            self.broker.quotas,
            self.broker.quota_clock,
            self.broker.member,
            self.broker.controller,
            self._authentications,
            dict if self.tls is None else self.tls.ends,
        )
        self.metrics = MetricsEndpoint(address, sources)

    async def stop(self) -> None:
        """Stop gracefully: all logs are flushed, and the next start needs no recovery."""
        await self.mode.leave()
        await self._close()

    async def _close(self) -> None:
        """Stop all parts. It does not matter whether they have begun."""
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        self.replicas.stop_timers()
        await self.replicas.moves.stop()
        await self.cleaner.stop()
        # Before connections are closed, so that waiting group members learn that the coordinator is gone.
        self.broker.groups.stop()
        await self.broker.publisher.stop()
        timeout = self.config["kafkalog.shutdown.timeout.ms"] / 1000
        deadline = self._loop.time() + timeout
        if self.acceptor is not None:
            await self.acceptor.close(timeout)
        await self.gates.close()
        if self.tls is not None:
            self.tls.close()
        await self.dispatcher.settle(max(deadline - self._loop.time(), SETTLE_S))
        # It ends those that wait for the controller. A client may have given the rest days.
        await self.mode.stop()
        await self.dispatcher.end()
        await self.broker.auto_creation.stop(SETTLE_S)
        if self.broker.tokens is not None:
            await self.broker.tokens.stop()
        await self.broker.groups.log.settle()
        await self.broker.transactions.stop()
        await self.broker.producer_ids.stop()
        if self.metrics is not None:
            await self._run(self.metrics.close)
        await self._run(self.logs.shutdown)
        await self.mode.close()
        logger.info("broker %d stopped", self.broker_id)

    # -- failing log directories

    @property
    def all_failed(self) -> str:
        """The message of a broker whose log directories have all failed."""
        paths = ", ".join(str(directory.path) for directory in self.logs.log_dirs)
        return f"Shutdown broker because all log dirs in {paths} have failed"

    def _directory_failed(self, path: Path) -> None:
        """Handle the failure of a log directory. Called on any thread."""
        self.mode.drop(path)
        # While the broker stops, the loop may be closed already, and there is nothing left to do.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._settle_failure, path)

    def _settle_failure(self, path: Path) -> None:
        if self.acceptor is not None:
            self.replicas.directory_failed(path)
            self.mode.directory_failed()
        if not self.logs.online_dirs:
            self.failed.set()

    # -- background work

    def _make_cleaner(self, loop: asyncio.AbstractEventLoop) -> LogCleaner:
        return LogCleaner(
            self.logs,
            loop,
            self.runtime.workers,
            lambda: self.broker.config.cleaner_config(),
            self.runtime.now_ms,
            self.runtime.files,
        )

    def _start_background(self) -> None:
        config = self.config
        self.cleaner.start()
        self._every(config["log.retention.check.interval.ms"] / 1000, self._retain, on_loop=True)
        flush_check = min(FLUSH_CHECK_SECONDS, config["log.flush.scheduler.interval.ms"] / 1000)
        now_ms, logs = self.runtime.now_ms, self.logs
        self._every(flush_check, lambda: logs.run_flushes(now_ms()), if_any=lambda: logs.resources.chores.flushes)
        self._every(DELETION_CHECK_SECONDS, lambda: logs.run_deletions(now_ms()), if_any=lambda: logs.has_deletions)
        self._every(
            config["log.flush.offset.checkpoint.interval.ms"] / 1000, self.logs.checkpoints.write_recovery_points
        )
        self._every(
            config["log.flush.start.offset.checkpoint.interval.ms"] / 1000,
            self.logs.checkpoints.write_log_start_offsets,
        )
        self._every(
            config["replica.high.watermark.checkpoint.interval.ms"] / 1000, self.logs.checkpoints.write_high_watermarks
        )
        if self.tls is not None:
            self._every(CERTIFICATE_CHECK_SECONDS, self._refresh_certificates)
        expiry_check = config["producer.id.expiration.check.interval.ms"] / 1000
        self._every(expiry_check, self._expire_producers, on_loop=True)
        if self.broker.tokens is not None:
            self._every(config["delegation.token.expiry.check.interval.ms"] / 1000, self._expire_tokens, on_loop=True)

    def _refresh_certificates(self) -> None:
        assert self.tls is not None
        self.tls.refresh(self.broker.config)

    async def _retain(self) -> None:
        await retain(self.logs, self.runtime.workers, self.runtime.now_ms())

    async def _expire_tokens(self) -> None:
        tokens, controller = self.broker.tokens, self.broker.controller
        if tokens is not None and (controller is None or controller.is_active):
            await tokens.remove_expired()

    async def _expire_producers(self) -> None:
        await remove_expired([log.producers for log in self.logs], self.runtime.now_ms)

    def _every(
        self,
        seconds: float,
        work: Callable[[], Any],
        *,
        on_loop: bool = False,
        if_any: Callable[[], bool] = lambda: True,
    ) -> None:
        """Do work again and again, on a worker if not `on_loop`, whenever `if_any` says that there is some."""

        async def run() -> None:
            while True:
                await asyncio.sleep(max(seconds, MIN_INTERVAL))
                if not if_any():
                    continue
                try:
                    if on_loop:
                        await work()
                    else:
                        await self._run(work)
                except Exception:
                    logger.exception("background work failed; it is tried again in %.0f s", seconds)

        self._keep(self._loop.create_task(run()))

    def _soon(self, work: Callable[[], Any]) -> None:
        async def run() -> None:
            try:
                await self._run(work)
            except Exception:
                logger.exception("background work failed")

        self._keep(self._loop.create_task(run()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _Stores:
    """Implements `ListenerStores`: certificates are read on workers."""

    def __init__(
        self, tls: TlsListeners, run: Callable[..., Awaitable[Any]], config: Callable[[], BrokerConfig]
    ) -> None:
        self._tls = tls
        self._run = run
        self._config = config

    async def check(self, config: BrokerConfig) -> None:
        await self._run(self._tls.check, config)

    async def use(self) -> None:
        await self._run(self._tls.refresh, self._config())
