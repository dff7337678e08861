"""Test that `--help` is fast: it imports nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = [
    "",
    "topics",
    "groups",
    "groups list",
    "server start",
    "quickstart",
    "topics create",
    "produce",
    "consume",
    "log",
    "log dump",
    "perf",
    "perf produce",
    "spark precompile",
]
HEAVY = {
    "numpy",
    "numba",
    "pyarrow",
    "asyncio",
    "ssl",
    "lz4",
    "cramjam",
    "kafkalog.client",
    "kafkalog.protocol",
    "broker.config",
    "broker.log",
    "broker.server",
    "pyspark",
    "importlib.metadata",
}


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("words", COMMANDS)
def test_help_imports_little(words: str) -> None:
    program = (
        "import sys, contextlib, io\n"
        "from kafkalog.cli.main import main\n"
        "text = io.StringIO()\n"
        "with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):\n"
        "    main([*sys.argv[1:], '--help'])\n"
        "assert 'examples:' in text.getvalue() or 'ACTION' in text.getvalue()\n"
        "print(*sys.modules, sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words.split()], capture_output=True, text=True, check=True, timeout=60
    )
    assert not HEAVY & set(done.stdout.split())
