"""Runs a broker as a process: logging, signals, and the line that says it is ready.

Exit codes: 0 after SIGTERM or SIGINT, 1 when the broker cannot start or all of its log directories have failed.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import signal
import sys
import threading
from typing import NoReturn

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.log.directories.log_dir import InconsistentClusterIdError, LogDirLockedError, LogDirUnusableError
from broker.log.files.file_ops import OS, FileOps
from broker.log.recovery.loading import DuplicateLogError
from broker.metadata.model import MetadataError
from broker.runtime import Runtime
from broker.security.authorizer.authorizer import AUDIT_LOGGER
from broker.server import Server
from broker.system import collector, compiler_pages
from broker.system.announcing import announce, ready_line
from broker.zookeeper.interface import ZooKeeperError
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.records.kernels import loader

logger = logging.getLogger(__name__)

KERNEL_DELAY = 0.5
"""Seconds after start before the record kernels are loaded, so that they do not delay the first requests."""
SWITCH_SECONDS = 0.001
"""The longest time for which a worker that computes has the interpreter while the event loop waits for it.

The loop may wait so long several times for one request. Python's own interval is five times as long.
"""
START_ERRORS = (
    ConfigError,
    DuplicateLogError,
    InconsistentClusterIdError,
    KafkaStorageError,
    LogDirLockedError,
    LogDirUnusableError,
    MetadataError,
    OSError,
    ZooKeeperError,
)
"""Errors at startup that are reported in one line, without a traceback."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, the message's parts, and the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        # What a call of the logger gave as `extra={"fields": …}`.
        entry |= getattr(record, "fields", {})
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def run(config: BrokerConfig, ops: FileOps = OS) -> int:
    """Run a broker until a signal ends it; return the exit code of the process."""
    _set_up_logging(config["kafkalog.log.format"])
    _raise_file_limit()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        asyncio.run(_serve(config, ops))
    except START_ERRORS as error:
        print(f"kafkalog: {error}", file=sys.stderr)
        return 1
    return 0


async def _serve(config: BrokerConfig, ops: FileOps) -> None:
    runtime = Runtime.of_process(config["background.threads"], ops)
    server = Server(config, runtime)
    await server.start()
    try:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.call_later(KERNEL_DELAY, _load_kernels)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        collector.resume_after_start()
        _tell_ready(server)
        ends = [loop.create_task(event.wait()) for event in (stop, server.failed)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if server.failed.is_set():
            _halt(server.all_failed)
        logger.info("stopping")
        await server.stop()
        runtime.workers.close(wait=True)


def _tell_ready(server: Server) -> None:
    addresses = ", ".join(map(str, server.registration.endpoints))
    announce(ready_line(server.broker_id) + addresses)


def _load_kernels() -> None:
    """Load the record kernels, which all brokers of a process share, on a thread of their own."""
    loading = loader.load_in_background()

    def settle() -> None:
        loading.join()
        compiler_pages.release()

    # Not one of the broker's workers, because a stop waits for them and compiling may take many seconds.
    threading.Thread(target=settle, name="settle-kernels", daemon=True).start()


def _halt(reason: str) -> NoReturn:
    """End the process at once, as Kafka does, because closing logs on a failed disk may hang for ever."""
    logger.critical(reason)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def _set_up_logging(form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter() if form == "json" else logging.Formatter("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    )
    # Libraries have their warnings written in the same form.
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for package in ("kafkalog", "broker", AUDIT_LOGGER):
        logging.getLogger(package).setLevel(logging.INFO)


def _raise_file_limit() -> None:
    """Raise the limit of file descriptors as far as allowed: each open segment and each connection takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 20) if hard != resource.RLIM_INFINITY else 1 << 20
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            logger.warning("the limit of open files stays at %d", soft)
