"""The part of Spark's micro-batch engine that a sink sees, without a JVM, for drills of many seeds.

As in Spark, a batch is written down before it runs (`offsets`) and after it is committed (`commits`); one that was
not committed runs again with the same rows. The sink is claimed, committed and aborted in processes of their own; tasks
run in workers that live as long as nobody kills them, are tried three times, and sometimes twice at once. A commit that
fails is followed by an abort, and ends the query, which is started again. The rows of a batch are the next numbers.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from spark_kafkalog import faults
from spark_kafkalog.sink.transactional import transactional_ids
from tests.spark_kafkalog.sink.transactional.committed import MicroBatch
from tests.support.faults import environment

TASKS = 3
ATTEMPTS = 3
WORKERS = 2
MOST_ROWS = 60
SPECULATION = 0.2
QUERY = "drill"

_fork = get_context("fork")


class QueryFailedError(Exception):
    """The query ended with an error, which Spark would report."""


class Worker:
    """A process that runs functions one after another."""

    def __init__(self) -> None:
        self._ours, theirs = _fork.Pipe()
        self._process: BaseProcess = _fork.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, act: Callable[..., Any], *arguments: Any) -> None:
        """Start `act`, a function of this module."""
        self._ours.send((act, arguments))

    def result(self) -> Any:
        """Return the result of the function that was started.

        Raises:
            QueryFailedError: The function raised an error, or the process has died.
        """
        try:
            succeeded, value = self._ours.recv()
        except (EOFError, ConnectionResetError):
            raise QueryFailedError("a process died") from None
        if not succeeded:
            raise QueryFailedError(value)
        return value

    def run(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """Run `act` and return its result."""
        try:
            self.begin(act, *arguments)
        except BrokenPipeError:
            raise QueryFailedError("a process died") from None
        return self.result()

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._ours.close()


def _serve(orders: Connection) -> None:
    while True:
        try:
            act, arguments = orders.recv()
        except EOFError:
            return
        try:
            orders.send((True, act(*arguments)))
        except Exception as error:
            orders.send((False, f"{type(error).__name__}: {error}"))


def _claim(bootstrap: str, topic: str, batch: int) -> MicroBatch:
    return MicroBatch(bootstrap, topic, topic, batch, query=QUERY)


def _write(batch: MicroBatch, values: list[bytes], fails: Path) -> Any:
    message = batch.task(values)
    try:
        fails.unlink()
    except FileNotFoundError:
        return message
    raise RuntimeError("this attempt was asked to fail")


def _commit(batch: MicroBatch, messages: list[Any]) -> None:
    batch.commit(*messages)


def _abort(batch: MicroBatch, messages: list[Any]) -> None:
    batch.abort(*messages)


class Engine:
    """One driver; `directory` is the checkpoint."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, seed: int) -> None:
        self._bootstrap, self._topic, self._directory = bootstrap, topic, directory
        self._dice = random.Random(seed)
        self._workers: list[Worker] = []

    def run(self) -> None:
        """Run batches without end; start a failed query again."""
        while True:
            batch, rows = self._next()
            try:
                self._run(batch, rows)
            except QueryFailedError as error:
                self._say(f"batch {batch} failed: {error}")
            else:
                self._put("commits", batch, "")
                self._say(f"batch {batch}: {rows}")

    def _next(self) -> tuple[int, range]:
        planned = sorted(int(each.name) for each in (self._directory / "offsets").iterdir() if each.name.isdigit())
        if planned and not (self._directory / "commits" / str(planned[-1])).exists():
            return planned[-1], self._rows(planned[-1])
        batch = planned[-1] + 1 if planned else 0
        start = self._rows(batch - 1).stop if batch else 0
        self._put("offsets", batch, f"{start} {start + self._dice.randrange(MOST_ROWS)}")
        return batch, self._rows(batch)

    def _rows(self, batch: int) -> range:
        start, stop = (self._directory / "offsets" / str(batch)).read_text().split()
        return range(int(start), int(stop))

    def _run(self, batch: int, rows: range) -> None:
        handed = self._in_a_process(_claim, self._bootstrap, self._topic, batch)
        messages = []
        try:
            for task in range(TASKS):
                message = self._task(handed, [b"%d" % number for number in rows[task::TASKS]])
                messages.append(message)
            self._in_a_process(_commit, handed, messages)
        except QueryFailedError as failure:
            try:
                self._in_a_process(_abort, handed, messages)
            except QueryFailedError as error:
                self._say(f"batch {batch}, abort: {error}")
            raise failure

    def _task(self, handed: MicroBatch, values: list[bytes]) -> Any:
        for _ in range(ATTEMPTS):
            count = 2 if self._dice.random() < SPECULATION else 1
            workers = [self._worker() for _ in range(count)]
            results = []
            for worker in workers:
                try:
                    results.append(worker.run(_write, handed, values, self._directory / "fail"))
                    self._workers.append(worker)
                except QueryFailedError as error:
                    self._say(f"an attempt failed: {error}")
                    worker.close()
            if results:
                return self._dice.choice(results)
        raise QueryFailedError(f"a task failed {ATTEMPTS} times")

    def _worker(self) -> Worker:
        if len(self._workers) < WORKERS:
            return Worker()
        return self._workers.pop(self._dice.randrange(len(self._workers)))

    def _in_a_process(self, act: Callable[..., Any], *arguments: Any) -> Any:
        worker = Worker()
        try:
            return worker.run(act, *arguments)
        finally:
            worker.close()

    def _put(self, kind: str, batch: int, text: str) -> None:
        new = self._directory / kind / f"{batch}.new"
        new.write_text(text)
        new.rename(self._directory / kind / str(batch))

    def _say(self, text: str) -> None:
        with (self._directory / "said").open("a") as file:
            print(text, file=file)


class EngineProcess:
    """An engine in its own session, forked from this process, so that it starts at once."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, seed: int) -> None:
        for kind in ("offsets", "commits", "faults"):
            (directory / kind).mkdir(exist_ok=True)
        self._directory = directory
        self._process: BaseProcess = _fork.Process(target=_drive, args=(bootstrap, topic, directory, seed))
        self._process.start()

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    def done(self) -> int:
        """Return the rows of committed batches."""
        batches = [int(each.name) for each in (self._directory / "commits").iterdir() if each.name.isdigit()]
        if not batches:
            return 0
        return int((self._directory / "offsets" / str(max(batches))).read_text().split()[1])

    def kill(self) -> None:
        """Send SIGKILL to all of its processes."""
        self._process.kill()
        self._process.join()
        while left := [each for each in psutil.process_iter() if _is_in_session(each, self._process.pid)]:
            for each in left:
                each.kill()
            psutil.wait_procs(left, timeout=0.2)


def _is_in_session(process: psutil.Process, session: int | None) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False


def _drive(bootstrap: str, topic: str, directory: Path, seed: int) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faults.obey(environment(directory / "faults"))
    transactional_ids.OF_PROCESS.clear()
    Engine(bootstrap, topic, directory, seed).run()
