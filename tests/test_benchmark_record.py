"""Test how the results of a benchmark are saved: beside the existing results, or in their place."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import performance, record
from benchmarks.peers import report
from benchmarks.recording.findings import HIGHER, LOWER, Finding, compared
from benchmarks.recording.outcomes import RESULTS, Outcome, Outcomes, Recording, load_all

WHEN = Recording(date="2026-12-01", machine="8 cores", commit="abc", options="--runs 3")
ON_TMPFS = replace(WHEN, variant="on tmpfs")
FOUND = Finding(
    name="100 B", unit="records/s", better=HIGHER, ours=1000, peer=500, peer_name="Apache Kafka 4.3.1", ratio=2, runs=3
)


def earlier(finding: Finding, variant: str | None = None) -> Outcome:
    return Recording(date="2026-01-01", machine="2 cores", variant=variant).of(
        replace(finding, ours=1, ratio=0.002, runs=None)
    )


def test_a_recording_takes_the_place_of_the_same_case_alone(tmp_path: Path) -> None:
    other = replace(FOUND, name="1 KB")
    before = [earlier(FOUND), earlier(other), earlier(FOUND, "on tmpfs")]
    Outcomes("produce", "Produce", before).save(tmp_path)
    path = record.save("produce", [FOUND], tmp_path, WHEN)
    after = Outcomes.load(path)
    assert after.title == "Produce"
    assert after.results[1:] == before[1:]
    new = after.results[0]
    assert (new.ours, new.ratio, new.runs) == (1000, 2, 3)
    assert (new.date, new.machine, new.commit, new.options) == ("2026-12-01", "8 cores", "abc", "--runs 3")
    page = performance.section(after).splitlines()
    assert "| 100 B | 1 K records/s | 500 records/s (Apache Kafka 4.3.1) | 2 ▲ | 1 |" in page
    assert page[-2:] == [
        "1. 2026-12-01; 3 runs; 8 cores; `abc`; `--runs 3`",
        "2. 2026-01-01; 2 cores",
    ]


def test_a_new_case_stands_beside_others_of_its_name(tmp_path: Path) -> None:
    other = replace(FOUND, name="1 KB")
    Outcomes("produce", "Produce", [earlier(FOUND), earlier(other)]).save(tmp_path)
    third, new = replace(FOUND, peer_name="Apache Kafka 3.9.2"), replace(FOUND, name="10 KB")
    path = record.save("produce", [new, third], tmp_path, WHEN)
    assert [(each.name, each.peer_name) for each in Outcomes.load(path).results] == [
        ("100 B", "Apache Kafka 4.3.1"),
        ("100 B", "Apache Kafka 3.9.2"),
        ("1 KB", "Apache Kafka 4.3.1"),
        ("10 KB", "Apache Kafka 4.3.1"),
    ]


def test_a_variant_stays_beside_the_usual_run(tmp_path: Path) -> None:
    record.save("produce", [FOUND], tmp_path, WHEN, "Produce")
    record.save("produce", [replace(FOUND, ours=7)], tmp_path, ON_TMPFS)
    path = record.save("produce", [replace(FOUND, ours=9)], tmp_path, ON_TMPFS)
    found = Outcomes.load(path)
    assert [(each.variant, each.ours) for each in found.results] == [(None, 1000), ("on tmpfs", 9)]
    assert "| 100 B, on tmpfs | 9 records/s |" in performance.section(found)


def test_a_ratio_below_one_is_better_where_less_is_better() -> None:
    [found] = compared("CPU", "s", {"kafkalog": [5.0], "Kafka": [20.0]}, {"Kafka": "Apache Kafka"}, better=LOWER)
    assert found.ratio == 0.25
    assert performance.advantage(WHEN.of(found)) == 4


def test_the_time_that_other_guests_have_taken() -> None:
    before = SimpleNamespace(user=5.0, nice=1.0, system=1.0, irq=0.0, softirq=0.0, steal=1.0, idle=9.0)
    after = SimpleNamespace(user=7.0, nice=2.0, system=1.5, irq=0.0, softirq=0.5, steal=2.0, idle=99.0)
    assert report.stolen(before, after) == 0.2
    assert report.stolen(before, before) == 0
    assert report.stolen(SimpleNamespace(user=1.0), SimpleNamespace(user=2.0)) == 0


@pytest.mark.usefixtures("processes")
def test_a_benchmark_s_results_are_recorded_as_it_returns_them(tmp_path: Path) -> None:
    assert record.main(["protocol", "--quick", "--results", str(tmp_path)]) == 0
    found = Outcomes.load(tmp_path / "protocol.json")
    assert {"encode Metadata v12 response, 1,000 partitions", "decode Fetch v17 request"} <= {
        each.name for each in found.results
    }
    assert all((each.unit, each.better, each.options) == ("µs", LOWER, "--quick") for each in found.results)


@pytest.mark.usefixtures("processes")
def test_a_benchmark_without_results_leaves_the_file_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = record.save("stalls", [FOUND], tmp_path, WHEN)
    before = path.read_bytes()
    assert record.main(["stalls", "--only", "no such request", "--results", str(tmp_path)]) == 1
    assert path.read_bytes() == before
    assert "hands over no results" in capsys.readouterr().err


@pytest.mark.usefixtures("processes")
def test_the_revision_says_whether_other_files_than_results_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert record.commit() is None
    made, other = tmp_path / record.MADE[0] / "produce.json", tmp_path / "produce.py"
    made.parent.mkdir(parents=True)
    for path in (made, other):
        path.write_text("first")
    identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "--quiet"], ["add", "."], [*identity, "commit", "--quiet", "--message=first"]):
        subprocess.run(["git", *words], check=True)
    first = record.commit()
    assert first is not None
    assert not first.endswith("+")
    made.write_text("second")
    assert record.commit() == first
    other.write_text("second")
    assert record.commit() == first + "+"


def test_options_go_to_the_benchmark_as_they_are() -> None:
    known, options = record.arguments(["--variant", "on tmpfs", "produce", "--dir", "/dev/shm", "--run", "5"])
    assert (known.name, known.variant, known.results) == ("produce", "on tmpfs", RESULTS)
    assert options == ["--dir", "/dev/shm", "--run", "5"]


def test_a_quick_run_does_not_take_the_place_of_a_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        record.arguments(["produce", "--quick"])
    assert "--results" in capsys.readouterr().err
    known, _ = record.arguments(["produce", "--quick", "--variant", "a look"])
    assert known.variant == "a look"


def test_a_benchmark_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        record.arguments(["produse"])
    assert "no benchmark 'produse'" in capsys.readouterr().err


def test_no_two_committed_results_are_of_the_same_case() -> None:
    for each in load_all():
        cases = [outcome.case for outcome in each.results]
        assert len(set(cases)) == len(cases), each.benchmark


def test_a_recorded_case_of_the_chart_keeps_its_bar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for each in load_all():
        each.save(tmp_path)
    chosen = json.loads(performance.BARS.read_text())[0]
    finding = replace(FOUND, name=chosen["case"], better=LOWER, ratio=0.125)
    record.save(chosen["benchmark"], [finding], tmp_path, WHEN)
    bars = performance.bars(list(load_all(tmp_path)))
    assert (bars[0].label, bars[0].times) == (chosen["label"], 8)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("processes")
def test_committed_results_name_commits_of_this_repository() -> None:
    """A recording on a branch that was rebased afterwards names a commit that nobody else has."""
    whole = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=RESULTS, capture_output=True, text=True, check=False
    )
    if whole.stdout.strip() != "false":
        pytest.skip("no repository with its whole history")
    named = {each.commit for found in load_all() for each in found.results if each.commit is not None}
    asked = "\n".join(f"{commit}^{{commit}}" for commit in sorted(named))
    told = subprocess.run(
        ["git", "cat-file", "--batch-check"], cwd=RESULTS, input=asked, capture_output=True, text=True, check=True
    )
    assert not [line for line in told.stdout.splitlines() if line.endswith("missing")]
