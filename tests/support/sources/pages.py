"""Run the examples of a page of docs/ one after another: Python, and commands with their output."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[3] / "docs"
ADDRESS = re.compile(r"(?:localhost|127\.0\.0\.1):9092")
"""The address of the pages' broker."""
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def run_page(name: str, address: str, *, blocks: int, replaced: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run all examples of a page in one namespace, and return the namespace.

    The page must have `blocks` examples. `address` replaces ADDRESS, and each value of `replaced` its key, which
    must be on the page.
    """
    page = DOCS / name
    text = page.read_text()
    text, count = ADDRESS.subn(address, text)
    assert count
    for old, new in (replaced or {}).items():
        assert old in text
        text = text.replace(old, new)
    found = list(_BLOCK.finditer(text))
    assert len(found) == blocks
    assert len(found) == text.count("```python")
    names: dict[str, Any] = {"__name__": f"docs/{name}"}
    for block in found:
        # Errors tell the line of the page.
        before = "\n" * text.count("\n", 0, block.start(2))
        exec(compile(before + textwrap.dedent(block[2]), str(page), "exec"), names)
    return names


class Shown(NamedTuple):
    """A command on a page, with its output."""

    command: str
    printed: list[str]


def commands(name: str, address: str) -> list[Shown]:
    """Return the commands of a page, with ADDRESS replaced by `address`."""
    found: list[Shown] = []
    for block in _CONSOLE.findall(ADDRESS.sub(address, (DOCS / name).read_text())):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                found.append(Shown(line[2:], []))
            elif line:
                found[-1].printed.append(line)
    return found
