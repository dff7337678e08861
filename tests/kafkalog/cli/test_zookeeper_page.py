"""Test that the examples of docs/how-to/zookeeper-consumers.md run one after another, and print what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.member import member_cluster
from tests.support.sources.pages import commands, run_page

ZOOKEEPER = re.compile(r"localhost:2181")


@pytest.mark.usefixtures("processes")
def test_the_page(tmp_path: Path) -> None:
    page = "how-to/zookeeper-consumers.md"
    program = tmp_path / "kafkalog"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kafkalog.cli.main "$@"\n')
    program.chmod(0o755)
    with member_cluster(tmp_path) as cluster:
        shown = [each for each in commands(page, cluster.bootstrap) if "server start" not in each.command]
        assert len(shown) > 8
        for each in shown:
            line = ZOOKEEPER.sub(cluster.zookeeper, each.command)
            done = subprocess.run(
                ["bash", "-c", f"set -o pipefail; export PATH={tmp_path}:$PATH; {line}"],
                cwd=tmp_path,
                text=True,
                timeout=240,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            assert done.returncode == 0, done.stdout
            printed = done.stdout.splitlines()
            # An ellipsis stands for lines that differ from run to run.
            expected = [line for line in each.printed if line != "…"]
            assert [line for line in printed if line in expected] == expected, done.stdout
            assert "…" in each.printed or len(printed) == len(expected), done.stdout
        names = run_page(page, cluster.bootstrap, blocks=2, replaced={"localhost:2181": cluster.zookeeper})
        assert sorted(map(int, names["found"])) == list(range(1, 31))
        assert sum(cluster.offsets("words", "visits").values()) == 30
        assert sum(cluster.offsets("count", "visits").values()) == 30
