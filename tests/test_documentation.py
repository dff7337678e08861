"""Tests of the documentation: links work, the index lists every page, generated pages are up to date."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from benchmarks import performance
from benchmarks.recording.outcomes import load_all
from kafkalog import __version__
from tools.reference.__main__ import pages

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"(?<!\\)\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
EXTRAS = re.compile(r"(?:kafkalog|\.whl|'\.)\[([a-z0-9,-]+)\]")
WHEEL = re.compile(r"kafkalog-([\d.]+)-py3")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def text_of(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCED.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Return the targets of the page's links within the repository."""
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


def test_the_performance_page_and_the_chart_show_the_results() -> None:
    everything = list(load_all())
    assert performance.PAGE.read_text() == performance.render(everything, performance.bars(everything)), (
        "run: make docs"
    )
    assert performance.CHART.read_text() == performance.draw(performance.bars(everything)), "run: make docs"


def test_the_cases_below_the_aims_are_explained() -> None:
    [reads] = [found for found in load_all() if found.benchmark == "spark_read"]
    rates = {
        each.name if each.variant is None else f"{each.name}, {each.variant}": each.ratio
        for each in reads.results
        if each.peer_name == "Spark's connector" and each.unit == "rows/s" and isinstance(each.ratio, float)
    }
    below = {name for name, ratio in rates.items() if ratio < (1.5 if name.startswith("AvailableNow") else 3)}
    assert below
    page = (DOCS / "explanation" / "pysparks-ceiling.md").read_text()
    assert {name for name in below if f"| {name} |" not in page} == set()


def test_the_references_say_what_the_code_says() -> None:
    made = pages()
    for path, text in made.items():
        assert path.read_text() == text, f"{path.relative_to(ROOT)}: run: make docs"
    api = DOCS / "reference" / "api"
    assert set(api.iterdir()) == {path for path in made if path.parent == api}


def test_the_chart_s_cases_are_among_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = json.loads(performance.BARS.read_text())
    bars = performance.bars(list(load_all()))
    assert capsys.readouterr().err == ""
    assert [bar.label for bar in bars] == [each["label"] for each in chosen]


def test_the_chart_leaves_out_a_case_without_a_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = tmp_path / "chart.json"
    first = json.loads(performance.BARS.read_text())[0]
    chosen.write_text(json.dumps([first | {"label": "gone", "case": "no such case"}, first]))
    [bar] = performance.bars(list(load_all()), chosen)
    assert bar.label == first["label"]
    assert "'no such case' of startup" in capsys.readouterr().err


def test_the_extras_that_messages_and_pages_tell_to_install_exist() -> None:
    existing = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    sources = [path for package in ("broker", "kafkalog", "spark_kafkalog") for path in (ROOT / package).rglob("*.py")]
    named = [(path, name) for path in (*PAGES, *sources) for name in EXTRAS.findall(path.read_text())]
    assert len(named) > 20
    assert [(str(path), names) for path, names in named if not existing.issuperset(names.split(","))] == []


def test_the_wheels_that_pages_name_have_this_version() -> None:
    named = [(page.name, version) for page in PAGES for version in WHEEL.findall(page.read_text())]
    assert len(named) > 3
    assert [each for each in named if each[1] != __version__] == []


def test_the_page_on_installing_lists_every_extra() -> None:
    existing = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    listed = re.findall(r"^\| `([a-z-]+)` \|", (DOCS / "how-to" / "install.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(existing - {"dev"})


@pytest.mark.usefixtures("processes")
def test_an_extra_is_added_without_a_package_index_that_has_kafkalog() -> None:
    words = [sys.executable, "-m", "pip", "install", "--no-index", "--dry-run", "kafkalog[zookeeper-sasl]"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert "already satisfied: kafkalog[zookeeper-sasl]" in done.stdout


_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^(?:\$ |FROM |(?:python3|pip|kafkalog|spark-submit|kinit) )", re.MULTILINE)
RUN = {"on-a-cluster.md": 6}
"""Blocks of commands by pages, that a test runs: tests/spark_kafkalog/cluster."""


@pytest.mark.parametrize("name", ["on-a-cluster.md", "cold-executors.md", "start-faster.md", "secured-clusters.md"])
def test_blocks_of_commands_are_run_or_say_that_they_are_not(name: str) -> None:
    text = (ROOT / "docs" / "how-to" / name).read_text()
    end, is_marked, unmarked = 0, False, []
    for block in _BLOCK.finditer(text):
        before = " ".join(text[end : block.start()].split())
        # A remark holds until other text follows.
        is_marked = "ot run by our tests" in before or (not before and is_marked)
        end = block.end()
        if not is_marked and block[1] in ("", "console", "dockerfile") and _COMMAND.search(block[2]):
            unmarked.append(block[2])
    assert len(unmarked) == RUN.get(name, 0), "\n".join(unmarked)
    assert all("$ " in block for block in unmarked)
