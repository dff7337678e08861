"""Test `kafkalog server add-user`: the first user of a lone broker, and what is refused."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.metadata.json_form import from_json
from broker.metadata.local import FILE_NAME
from kafkalog.cli.main import main
from kafkalog.client.admin import Admin
from kafkalog.protocol.scram import ScramCredential, ScramMechanism
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.secured.sasl_broker import SCRAM, SaslBroker


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    def run(*words: str, password: str = "first-secret", directory: Path | None = None) -> int:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return main(["server", "add-user", *words, "--override", f"log.dirs={directory or tmp_path / 'log'}"])

    return run


def stored(directory: Path) -> dict[str, dict[ScramMechanism, ScramCredential]]:
    state = from_json((directory / FILE_NAME).read_text(), "here")
    return {user: dict(credentials) for user, credentials in state.scram_credentials.items()}


def test_users_are_added_and_changed(
    tmp_path: Path, add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("ann") == 0
    assert "user ann may log in by SCRAM-SHA-256, SCRAM-SHA-512" in capsys.readouterr().out
    first = stored(tmp_path / "log")
    assert set(first["ann"]) == set(ScramMechanism)
    file = tmp_path / "password"
    file.write_text("other\nline")
    assert add("ann", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", "--password-file", str(file)) == 0
    assert add("bob", "--mechanism", "SCRAM-SHA-256") == 0
    found = stored(tmp_path / "log")
    assert found["ann"][ScramMechanism.SHA_256] == first["ann"][ScramMechanism.SHA_256]
    made = found["ann"][ScramMechanism.SHA_512]
    assert made == ScramCredential.of_password(ScramMechanism.SHA_512, "other", 8192, made.salt)
    assert set(found["bob"]) == {ScramMechanism.SHA_256}
    assert (tmp_path / "log" / FILE_NAME).stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["", "--mechanism", "SCRAM-SHA-256"], "must not be empty"),
        (["ann", "--iterations", "4095"], "--iterations: 4096 to 16384"),
        (["ann", "--password-file", "/does/not/exist"], "/does/not/exist"),
        (["ann", "--override", "num.partitions=many"], "num.partitions"),
    ],
)
def test_what_is_refused(
    words: list[str], said: str, add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert add(*words) == 2
    assert said in capsys.readouterr().err


def test_a_password_is_needed(add: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert add("ann", password="") == 2
    assert "the password must not be empty" in capsys.readouterr().err


def test_logs_without_a_registry_are_taken_over_first(
    tmp_path: Path, add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log" / "words-0").mkdir(parents=True)
    assert add("ann") == 1
    assert "start the broker once" in capsys.readouterr().err


@pytest.mark.usefixtures("processes")
def test_the_first_user_of_a_new_broker(
    tmp_path: Path, add: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    broker = SaslBroker(tmp_path)
    assert add("ann", directory=broker.log_dir) == 0
    with broker:
        for mechanism in SCRAM:
            with Admin(broker.properties(mechanism, "ann", "first-secret")) as admin:
                assert admin.list_topics() == []
        assert add("bob", directory=broker.log_dir) == 1
        assert "Stop the broker first" in capsys.readouterr().err


@pytest.mark.usefixtures("processes")
def test_a_listener_that_nobody_can_log_in_to_is_named(tmp_path: Path) -> None:
    prefix = "listener.name.sasl_plaintext"
    with SaslBroker(tmp_path, {f"{prefix}.sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as broker:
        assert isinstance(broker, KafkalogBroker)
        broker.wait_logged("nobody can log in to the listener SASL_PLAINTEXT: no user has credentials")
