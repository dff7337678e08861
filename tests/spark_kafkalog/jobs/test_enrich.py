"""Test the job `enrich` through spark-submit, against a join in plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_kafkalog.jobs import access_log, json_lines
from tests.spark_kafkalog.jobs import web
from tests.spark_kafkalog.jobs.reading import records_of
from tests.spark_kafkalog.jobs.submitting import committed, submit, submit_and_kill
from tests.spark_kafkalog.topics import Topics

pytestmark = pytest.mark.spark

SECTIONS = {"/": "other", "/blog": "blog", "/blog/tags": "tags", "/presentations": "talks"}


def section_of(path: str) -> str | None:
    fits = [prefix for prefix in SECTIONS if path.startswith(prefix)]
    return SECTIONS[max(fits, key=len)] if fits else None


def options(bootstrap: str, topic: str, to: str, directory: Path) -> list[str]:
    checkpoint = f"--checkpoint={directory / 'checkpoint'}"
    return ["--bootstrap-server", bootstrap, "--topic", topic, "--to", to, checkpoint, "--json"]


def as_logged(line: bytes) -> dict[str, Any]:
    """Return the row that the job writes for a line, without the fields that it looks up."""
    seen = web.seen(line)
    quoted = line.decode().split('"')
    target, protocol = quoted[1].split()[1:]
    return {
        "host": seen.host,
        "user": None,
        "time": seen.time.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "method": seen.method,
        "target": target,
        "path": seen.path,
        "protocol": protocol,
        "status": seen.status,
        "bytes": seen.size,
        "referer": None if quoted[3] == "-" else quoted[3],
        "agent": None if quoted[5] == "-" else quoted[5],
    }


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_access_log_killed_in_the_middle_and_restarted(topics: Topics, tmp_path: Path) -> None:
    """At least once: every line's record is there, some perhaps twice, told apart by where they come from."""
    topic, to, aside = topics.create("access", 2), topics.create("sections", 2), topics.create("rejected")
    lines = web.access_lines()
    sent = topics.produce(topic, [*lines, b"no line"])
    table = tmp_path / "sections.csv"
    table.write_text("prefix,section\n" + "".join(f"{prefix},{name}\n" for prefix, name in SECTIONS.items()))
    asked = [*options(topics.bootstrap, topic, to, tmp_path), "--lookup", str(table), "--rejected-topic", aside]
    asked += ["--on", "path", "--match", "prefix", "--as", "section", "--source-position"]
    checkpoint = tmp_path / "checkpoint" / "enrich"
    submit_and_kill(
        "enrich", tmp_path / "spark", lambda: committed(checkpoint) >= 2, *asked, "--max-offsets-per-trigger", "10"
    )
    assert committed(checkpoint) < 50, "it was killed in the middle"
    done = submit("enrich", tmp_path / "spark", *asked)
    assert done.code == 0, done.output + done.errors
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for key, value, headers in records_of(topics.bootstrap, to):
        assert value is not None
        record = json.loads(value)
        assert key == record["host"].encode()
        assert headers == {}
        place = record.pop("source")
        assert place.pop("topic") == topic
        assert place.keys() == {"partition", "offset"}
        at = place["partition"], place["offset"]
        assert found.setdefault(at, record) == record, "a repeated record is the same"
    expected = {
        (each.partition, each.offset): as_logged(each.value)
        | {"section": {"section": section_of(web.seen(each.value).path)}}
        for each in sent
        if each.value is not None and each.value != b"no line"
    }
    assert found == expected
    (rejected,) = {(value, headers["reason"]) for _, value, headers in records_of(topics.bootstrap, aside)}
    assert rejected == (b"no line", access_log.NO_LINE.encode())


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_json_lines_keep_their_text_key_and_headers(topics: Topics, tmp_path: Path) -> None:
    topic, to = topics.create("status", 2), topics.create("sites")
    lines = [line.rstrip() for line in web.status_lines()]
    other = b'{"address":"10.0.0.1","exact":1.10}'
    broken = b'{"address":"10.0.0.1"'
    values = [*lines, other, broken, b'{"site":1}']
    messages = [
        {"value": value, "key": b"k%d" % place, "headers": [("n", b"%d" % place)]} for place, value in enumerate(values)
    ]
    topics.produce(topic, messages)
    address = json.loads(lines[0])["address"]
    assert all(json.loads(line)["address"] == address for line in lines)
    table = pa.table({"where": ["east"], "ip": [address], "rack": [7]})
    pq.write_table(table, tmp_path / "sites.parquet")
    asked = [*options(topics.bootstrap, topic, to, tmp_path), "--rejected", str(tmp_path / "rejected")]
    asked += [
        "--format",
        "json",
        "--on",
        "$.address",
        "--lookup",
        str(tmp_path / "sites.parquet"),
        "--lookup-key",
        "ip",
    ]
    done = submit("enrich", tmp_path / "spark", *asked, "--as", "site", "--keep-key", "--keep-headers")
    assert done.code == 0, done.output + done.errors
    site = b',"site":{"where":"east","rack":7}}'
    expected = [line[:-1] + site for line in lines] + [other[:-1] + b',"site":null}']
    records = records_of(topics.bootstrap, to)
    assert sorted(records, key=str) == sorted(
        ((b"k%d" % place, value, {"n": b"%d" % place}) for place, value in enumerate(expected)), key=str
    )
    rejected = pq.read_table(tmp_path / "rejected").to_pylist()
    assert {(row["value"], row["reason"], row["key"]) for row in rejected} == {
        (broken, json_lines.NO_OBJECT, b"k%d" % (len(lines) + 1)),
        (b'{"site":1}', json_lines.HAS_MEMBER, b"k%d" % (len(lines) + 2)),
    }
    assert done.figures == {
        "records": len(values),
        "written": len(lines) + 1,
        "unmatched": 1,
        "rejected": {json_lines.NO_OBJECT: 1, json_lines.HAS_MEMBER: 1},
    }
