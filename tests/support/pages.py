"""The Python examples of a page of docs/, run as they stand, one after another."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "localhost:9092"
"""Where the pages have their broker."""
_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def run_page(name: str, address: str, *, blocks: int, replaced: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run all examples of a page, which are so many, in one namespace, and return that.

    ``address`` takes the place of ADDRESS, and each value of ``replaced`` that of its key, which must be there.
    """
    page = DOCS / name
    text = page.read_text()
    for old, new in {ADDRESS: address, **(replaced or {})}.items():
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
