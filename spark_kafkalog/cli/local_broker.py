"""A broker as a child process, for commands that need one for a while.

On Linux it ends with the command, even if that is killed.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from kafkalog.cli.shared.child import end_with_parent

READY = re.compile(rb"accepting connections on PLAINTEXT://([^\s,]+)")
START_SECONDS = 60.0
STOP_SECONDS = 60.0


class BrokerStartError(RuntimeError):
    """The broker ended, or was not ready in time; the message has its last output."""


class LocalBroker:
    """A broker on a free port of this machine, its log in `log_dir`, its output in `output`."""

    def __init__(self, log_dir: Path, output: Path) -> None:
        self._log_dir = log_dir
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else -1

    def start(self) -> None:
        """Start it and wait until it accepts connections; after a stop, on the same port as before.

        Raises:
            BrokerStartError: It did not get that far.
        """
        seen = self._output.stat().st_size if self._output.exists() else 0
        command = [
            sys.executable, "-m", "kafkalog.cli.main", "server", "start",
            "--override", f"listeners=PLAINTEXT://{self.bootstrap or '127.0.0.1:0'}",
            "--override", f"log.dirs={self._log_dir}",
        ]  # fmt: skip
        with self._output.open("ab") as output:
            # A session of its own: Ctrl-C comes only to this process, which then stops the broker in good order.
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                preexec_fn=end_with_parent(),
                start_new_session=True,
            )
        try:
            self._wait_until_ready(self._process, seen)
        except BaseException:
            # Also if a signal ends this process: nobody else would end the broker.
            self.kill()
            raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes], seen: int) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            said = self._output.read_bytes()[seen:]
            ready = READY.search(said)
            if ready is not None:
                self.bootstrap = ready[1].decode()
                return
            if process.poll() is not None or time.monotonic() > end:
                last = said.decode(errors="replace").strip() or "it said nothing"
                raise BrokerStartError(f"the broker did not start: {last}")
            time.sleep(0.02)

    def restart(self) -> None:
        """Kill the broker (SIGKILL) and start it again."""
        self.kill()
        self.start()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop the broker with SIGTERM, so that it shuts down cleanly."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
