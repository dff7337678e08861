"""The documentation holds together: links lead somewhere, and the index lists every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Where the page's links within the repository lead."""
    found = [first or second for first, second in LINK.findall(text_of(page))]
    return [link for link in found if not link.startswith(("http://", "https://", "mailto:"))]


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as GitHub forms them."""
    found = set()
    for heading in HEADING.findall(text_of(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.relative_to(ROOT)} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.relative_to(ROOT)} links to {link}, which has no such heading"


def test_the_index_lists_every_page() -> None:
    index = DOCS / "README.md"
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(index)}
    listed |= {
        (path.parent / link.partition("#")[0]).resolve() for path in DOCS.glob("*/**/README.md") for link in links(path)
    }
    missing = {path for path in DOCS.rglob("*.md") if path != index} - listed
    assert not missing, f"docs/README.md leaves out {sorted(str(path.relative_to(DOCS)) for path in missing)}"
