"""Test what `kafkalog mirror start` says about wrong usage and failures."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import call


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
