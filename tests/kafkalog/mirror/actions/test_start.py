"""Test what `kafkalog mirror start` says about wrong usage and failures."""

from __future__ import annotations

from pathlib import Path

from kafkalog.client.admin import Admin
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call, ended_by_sigterm, start
from tests.support.kafkalog_broker import KafkalogBroker


def test_clusters_must_be_named() -> None:
    ended = call("mirror", "start", "--topics", "x", check=2)
    assert ended.err == "kafkalog: no address of the cluster source: give --source, or source.bootstrap.servers\n"


def test_a_bad_expression_is_named() -> None:
    ended = call("mirror", "start", "--source", "a:1", "--target", "b:1", "--topics", "(", check=2)
    assert "topics=(" in ended.err


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    ended = call("mirror", "start", "--config", str(tmp_path / "none"), check=2)
    assert str(tmp_path / "none") in ended.err


def test_the_same_alias_twice_is_refused() -> None:
    words = ("--source", "a:1", "--target", "b:1", "--source-alias", "x", "--target-alias", "x")
    assert "same alias 'x'" in call("mirror", "start", *words, check=2).err


def test_the_first_line_names_the_cluster_that_cannot_be_reached(clusters: Clusters, alias: str) -> None:
    words = ("--source", "127.0.0.1:1", "--target", clusters.target, "--source-alias", alias, "--topics", alias)
    with ended_by_sigterm(start("mirror", "start", *words)) as mirror:
        assert mirror.stderr is not None
        first = mirror.stderr.readline().decode()
    assert f"the source {alias} (127.0.0.1:1) cannot be reached" in first


def test_what_no_client_heeds_is_named_once(processes: None, alias: str, tmp_path: Path) -> None:
    """The properties are those of consumers, producers and administrators."""
    source, target = tmp_path / "source.properties", tmp_path / "target.properties"
    source.write_text("group.instance.id=one\nmax.poll.records=7\nfetch.min.bites=1\n")
    target.write_text("linger.ms=3\nfetch.min.bites=1\n")
    words = ("--source", "127.0.0.1:1", "--target", "127.0.0.1:1", "--source-alias", alias, "--topics", alias)
    files = ("--source-config", str(source), "--target-config", str(target))
    with ended_by_sigterm(start("mirror", "start", *words, *files)) as mirror:
        assert mirror.stderr is not None
        first, second = (mirror.stderr.readline().decode() for _ in range(2))
    assert first == "kafkalog: the property fetch.min.bites is not known and has no effect\n"
    assert f"the source {alias} (127.0.0.1:1) cannot be reached" in second


def test_a_mirror_ends_while_its_target_is_down(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    """Sooner than a transaction gives up, which takes two minutes."""
    topic, left_out = f"words-{alias}", f"left-out-{alias}"
    for each in (topic, left_out):
        make(clusters.source, each)
    write(clusters.source, topic, range(3))
    with KafkalogBroker(tmp_path / "target", AT_ONCE) as target:
        words = ("--source", clusters.source, "--target", target.bootstrap, "--source-alias", alias)
        chosen = ("--topics", f".*-{alias}", "--exclude", f"left-.*,{left_out}x")
        with ended_by_sigterm(start("mirror", "start", *words, *chosen)):
            read_all(target.bootstrap, f"{alias}.{topic}", 3)
            with Admin({"bootstrap.servers": target.bootstrap}) as admin:
                assert f"{alias}.{left_out}" not in admin.list_topics()
            target.kill()
            write(clusters.source, topic, range(3, 6))
