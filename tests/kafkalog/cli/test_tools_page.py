"""Test that the commands of docs/how-to/tools.md print what the page shows, one after another."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.sources.pages import Shown, commands, run_page
from tests.support.waiting import wait_until

VARIES = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![\w-])[\w-]{22}(?![\w-])|\d+(?= tries)")
"""Member ids, and how often something was tried."""


def normal(lines: list[str]) -> list[str]:
    """Lines without what differs from run to run; both streams are in one, in no particular order."""
    return sorted(" ".join(VARIES.sub("…", line).split()) for line in lines if line)


@pytest.fixture
def shell(processes: None, tmp_path: Path) -> Iterator[Callable[[str], list[str]]]:
    """Runs a line as a shell does, with this `kafkalog`; returns what it printed, nothing where it ends with &."""
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "kafkalog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkalog.cli.main "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    with ExitStack() as stack:

        def run(line: str) -> list[str]:
            if line.endswith("&"):
                words = ["bash", "-c", f"exec {line.removesuffix('&')}"]
                behind = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
                stack.callback(behind.wait)
                stack.callback(behind.kill)
                return []
            done = subprocess.run(
                ["bash", "-c", line], env=environment, text=True, timeout=240, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            return done.stdout.splitlines()

        yield run


@pytest.mark.timeout(900)
def test_the_page(
    start_broker: Callable[..., KafkalogBroker], shell: Callable[[str], list[str]], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    quick = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
    address = start_broker({"log.dirs": f"{tmp_path / 'log'},{other}", **quick}).address
    shown = commands("how-to/tools.md", address)
    assert len(shown) > 15
    for each in shown:
        check(each, shell)
    run_page("how-to/tools.md", address, blocks=2, replaced={"/data2/kafkalog": str(other)})


def check(shown: Shown, shell: Callable[[str], list[str]]) -> None:
    printed: list[str] = []

    def matches() -> bool:
        printed[:] = shell(shown.command)
        return normal(printed) == normal(shown.printed)

    if " describe " in shown.command:
        # Members come and commit when they do.
        wait_until(matches, f"{shown.command} prints {normal(shown.printed)}")
    else:
        matches()
    assert normal(printed) == normal(shown.printed), shown.command
