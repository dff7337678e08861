"""Test that the commands of docs/tutorial/cluster.md do what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from peers import require
from peers.toolchains import java
from tests.support.sources.pages import commands
from tests.support.waiting import wait_until

PORTS = re.compile(r"127\.0\.0\.1:\d+")
VARIES = re.compile(r"127\.0\.0\.1:\d+|(?<=process )\d+|(?<=leads )\d+|(?<=partitions words-)\d|, controller")
"""Ports, process ids, and what is decided by chance."""


def normal(lines: list[str]) -> list[str]:
    return [VARIES.sub("", line) for line in lines if line]


@pytest.mark.usefixtures("processes")
@pytest.mark.timeout(300)
def test_the_page(tmp_path: Path) -> None:
    require(java.missing())
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "kafkalog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkalog.cli.main "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}

    def shell(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, text=True, timeout=240, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return [each for each in done.stdout.splitlines() if not each.startswith("Processed a total")]

    start, *others = commands("tutorial/cluster.md", "127.0.0.1:9092")
    assert start.command == "kafkalog cluster start --brokers 3"
    assert len(others) == 13
    # Five seconds after its election the controller balances the leaders itself, maybe before the page does.
    words = ["bash", "-c", f"exec {start.command} --base-port 0 --override auto.leader.rebalance.enable=false"]
    cluster = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert cluster.stdout is not None
    try:
        line = cluster.stdout.readline().strip()
        assert normal([line]) == normal(start.printed)
        addresses = PORTS.findall(line)
        controller = ""
        for each in others:
            typed = each.command.replace("127.0.0.1:9092", ",".join(addresses))
            if " status" in typed:
                # Leaders are told to all brokers soon after the topic is created.
                wanted = normal(each.printed)
                wait_until(partial(lambda wanted: normal(shell("kafkalog cluster status")) == wanted, wanted), typed)
                controller = next(told for told in shell(typed) if told.endswith("controller")).split()[1]
            if controller == "3":
                # The page kills a broker that is not the controller.
                typed = re.sub(r"(kill|start|partition|heal) 3", r"\1 2", typed)
            printed = [re.sub("broker 2 (was|is)", r"broker 3 \1", told) for told in shell(typed)]
            assert normal(printed) == normal(each.printed), each.command
        wait_until(lambda: len(shell("kafkalog cluster status")) == 4, "all replicas are in sync")
        cluster.terminate()
        assert cluster.wait(120) == 0
    finally:
        cluster.kill()
        cluster.wait()
        cluster.stdout.close()
