"""Tests of commands with the secured Apache Kafka, by properties files as Java's clients have them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.client.admin import AclOperation, AclResourceType
from peers.brokers.secured_kafka import ALICE, BOB, LISTENERS, SecuredKafka, password_of
from peers.security.certificates import PASSWORD
from tests.support.command import call, run
from tests.support.secured.acls import allow
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

CONFIG = {"produce": "--producer.config", "consume": "--consumer.config"}
"""The options that name the properties file, where it is not `--command-config`."""
PATIENT = """\
default.api.timeout.ms=120000
retry.backoff.ms=600000
retry.backoff.max.ms=600000
"""
"""The first backoff lasts beyond the time-outs: a command that tries again ends with the error of a time-out."""


class Commands:
    """Runs commands as one client of a secured broker.

    Args:
        secured: The broker.
        listener: The listener to connect to.
        file: Where the properties file is written.
        properties: The lines of the file that authenticate the client.
        authority: The PEM file of the authority that the client trusts; that of the broker by default.
    """

    def __init__(
        self, secured: SecuredKafka, listener: str, file: Path, properties: str = "", authority: Path | None = None
    ) -> None:
        trusted = authority or secured.certificates.authority
        protocol = f"security.protocol={LISTENERS[listener]}\n"
        trust = f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
        file.write_text(protocol + trust + properties)
        self._file = str(file)
        self._server = secured.addresses[listener]

    def words(self, *words: str) -> list[str]:
        """Return the whole command line of a command."""
        option = CONFIG.get(words[0], "--command-config")
        return [*words, "--bootstrap-server", self._server, option, self._file]

    def __call__(self, *words: str) -> list[str]:
        """Return the lines that a command prints; it must succeed without a warning."""
        done = call(*self.words(*words))
        assert done.err == ""
        return done.out

    def run(self, *words: str, stdin: bytes = b"") -> str:
        """Return the output of a command that reads or writes records; it must succeed."""
        return run(*self.words(*words), stdin=stdin).stdout.decode()

    def refusal(self, *words: str) -> str:
        """Return the line by which a command is refused."""
        refused = call(*self.words(*words), check=1)
        assert refused.out == []
        return one_line(refused.err)

    def run_refused(self, *words: str) -> str:
        """Return the line by which a command that reads or writes records is refused."""
        refused = run(*self.words(*words), stdin=b"lost\n", check=1)
        assert refused.stdout == b""
        return one_line(refused.stderr.decode())


def one_line(errors: str) -> str:
    """Return the one line of standard error beside the number of records that were read."""
    (line,) = [line for line in errors.splitlines() if line != "Processed a total of 0 messages"]
    return line


def scram(user: str, password: str) -> str:
    """Return the lines of a login, on two lines as they are pasted."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return f"""\
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config={module} required \\
    username="{user}" password="{password}";
"""


def by_password(secured: SecuredKafka, file: Path) -> Commands:
    return Commands(secured, "SASL_SSL", file, scram(ALICE, password_of(ALICE)))


def by_certificate(secured: SecuredKafka, file: Path) -> Commands:
    own = f"ssl.keystore.type=PEM\nssl.keystore.location={secured.certificates.client}\nssl.key.password={PASSWORD}\n"
    return Commands(secured, "MTLS", file, own)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


@pytest.fixture
def name() -> str:
    """Return a name that no other test uses, for a topic and a group."""
    return f"commands-{uuid.uuid4().hex[:12]}"


@pytest.mark.parametrize("login", [by_password, by_certificate])
def test_records_topics_and_groups(
    secured: SecuredKafka, file: Path, name: str, login: Callable[[SecuredKafka, Path], Commands]
) -> None:
    commands = login(secured, file)
    topic, group = ("--topic", name), ("--group", name)
    assert commands("topics", "create", *topic, "--partitions", "1") == [f"Created topic {name}."]
    wait_until(lambda: name in commands("topics", "list"), "the topic is listed")
    assert f"Topic: {name}\t" in commands("topics", "describe", *topic)[0]
    commands.run("produce", *topic, stdin=b"one\ntwo\n")
    reading = ("--from-beginning", "--max-messages", "2")
    assert commands.run("consume", *topic, *group, *reading) == "one\ntwo\n"
    assert name in commands("groups", "list")

    def committed() -> list[int]:
        described = call(*commands.words("groups", "describe", *group, "--json")).out
        return [json.loads(line)["current_offset"] for line in described]

    assert committed() == [2]
    commands("groups", "reset-offsets", *group, *topic, "--to-earliest", "--execute")
    assert committed() == [0]
    commands("groups", "delete", *group)
    assert name not in commands("groups", "list")
    commands("topics", "delete", *topic)
    wait_until(lambda: name not in commands("topics", "list"), "the topic is gone")


@pytest.mark.parametrize("use", [("topics", "list"), ("groups", "list"), ("consume", "--topic", "any")], ids=" ".join)
def test_refused_logins(secured: SecuredKafka, file: Path, use: tuple[str, ...]) -> None:
    def refusal(listener: str, properties: str = "", authority: Path | None = None) -> str:
        return Commands(secured, listener, file, PATIENT + properties, authority).refusal(*use)

    assert_guessed(secured, refusal("SASL_SSL", scram(ALICE, "guessed")))
    unknown = refusal("SSL", authority=secured.certificates.stranger)
    assert unknown.endswith("; ssl.truststore.location does not have the certificate of its authority")
    assert "is not valid now" in refusal("EXPIRED")
    assert "ssl.endpoint.identification.algorithm=none" in refusal("ELSEWHERE")
    assert "set ssl.keystore.location" in refusal("MTLS")


def assert_guessed(secured: SecuredKafka, line: str) -> None:
    """Assert that a line tells of a wrong password."""
    assert line.startswith(f"kafkalog: {secured.addresses['SASL_SSL']} refuses user 'alice' (SCRAM-SHA-512): ")
    assert line.endswith("; check sasl.username and sasl.password")


def test_a_producer_and_a_member_that_are_refused(secured: SecuredKafka, file: Path) -> None:
    commands = Commands(secured, "SASL_SSL", file, PATIENT + scram(ALICE, "guessed"))
    assert_guessed(secured, commands.run_refused("produce", "--topic", "any", "--max-block-ms", "120000"))
    assert_guessed(secured, commands.run_refused("consume", "--topic", "any", "--group", "any"))


def test_missing_rights(secured: SecuredKafka, file: Path, name: str) -> None:
    admin = by_password(secured, file.with_name("admin.properties"))
    admin("topics", "create", "--topic", name, "--partitions", "1")
    wait_until(lambda: name in admin("topics", "list"), "the topic is listed")
    commands = Commands(secured, "SASL_SSL", file, PATIENT + scram(BOB, password_of(BOB)))
    topic, group = ("--topic", name), ("--group", name)
    may_not = f"kafkalog: topic {name}: The principal may not do this to the topic: an ACL has to allow it."
    assert commands.run_refused("produce", *topic, "--max-block-ms", "120000") == may_not
    assert commands.refusal("consume", *topic) == may_not
    assert commands.refusal("topics", "create", *topic) == may_not
    # The broker lists no topic that the user may not describe.
    assert f"'{name}'" in commands.refusal("topics", "delete", *topic)
    of_group = f"kafkalog: group {name}: The principal may not do this to the group: an ACL has to allow it."
    assert commands.refusal("groups", "describe", *group) == of_group
    assert commands.refusal("groups", "reset-offsets", *group, *topic, "--to-earliest") == of_group
    allow(secured, BOB, AclOperation.READ, AclResourceType.TOPIC, name)
    wait_until(lambda: name in commands("topics", "list"), "the right is known")
    for protocol in ("classic", "consumer"):
        member = (*group, "--consumer-property", f"group.protocol={protocol}")
        assert commands.run_refused("consume", *topic, *member) == of_group
