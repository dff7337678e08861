"""Tests of the parser of `sasl.jaas.config`: what Kafka takes, what it refuses, and errors without secrets."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.jaas import JaasLogin, LoginModule, parse_jaas, parse_sections
from peers import require
from peers.brokers.kafka import KAFKA_4, kafka_classpath
from peers.toolchains import java

PLAIN = LoginModule.PLAIN.value
SECRET = "kqx7"
"""The secret that no error may show."""


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_jaas(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ('username="alice" password="secret"', {"username": "alice", "password": "secret"}),
        ("username='al\"ice' password=\"it's\"", {"username": 'al"ice', "password": "it's"}),
        ('password="a\\"b\\\\c\\td\\101\\47\\777e"', {"password": "a\"b\\c\tdA'?7e"}),
        ('password="a;b=c//d/*e*/"', {"password": "a;b=c//d/*e*/"}),
        ("useKeyTab=true serviceName=kafka-1.a_b$", {"useKeyTab": "true", "serviceName": "kafka-1.a_b$"}),
        ('// begin\n username /* of\n the user */ = "a"\n  / the rest\n', {"username": "a"}),
        ('password="first" password="last"', {"password": "last"}),
        ('password="żółć 🔑" größe="1"', {"password": "żółć 🔑", "größe": "1"}),
        ('unsecuredLoginStringClaim_sub="alice"', {"unsecuredLoginStringClaim_sub": "alice"}),
        ('password=""', {"password": ""}),
        ("", {}),
    ],
)
def test_options(options: str, expected: dict[str, str]) -> None:
    login = parse_jaas(f"{PLAIN} Required {options};")
    assert login == JaasLogin(LoginModule.PLAIN, "required", expected)


def test_every_module_is_known_by_its_mechanisms() -> None:
    for module in LoginModule:
        for prefix in ("", "kafkashaded.", "shadedmskiam."):
            login = parse_jaas(f"{prefix}{module.value} optional;")
            assert login.module is module
        for mechanism in module.mechanisms:
            login.check_mechanism(mechanism)
    found = [mechanism for module in LoginModule for mechanism in module.mechanisms]
    assert len(found) == len(set(found))


def test_a_module_that_contradicts_the_mechanism() -> None:
    login = parse_jaas(f'{PLAIN} required username="a" password="{SECRET}";')
    with pytest.raises(
        ConfigError, match=r"PlainLoginModule does not fit sasl\.mechanism=SCRAM-SHA-256.*=PLAIN"
    ) as met:
        login.check_mechanism("SCRAM-SHA-256")
    assert "scram.ScramLoginModule" in str(met.value)
    assert SECRET not in str(met.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a login module is expected"),
        (" // nothing\n", "a login module is expected"),
        (SECRET, "required, requisite, sufficient, optional"),
        ("= required;", "login module is expected first"),
        (f"{PLAIN};", "one of required"),
        (f"{PLAIN} {SECRET};", "one of required"),
        (f"{PLAIN} required", "semicolon is missing"),
        (f'{PLAIN} required password="{SECRET}"', "semicolon is missing at the end, after the value of password"),
        (f'{PLAIN} required password "{SECRET}";', "password has no value"),
        (f'{PLAIN} required password="a{SECRET}" {SECRET};', "after the value of password"),
        (f'{PLAIN} required password="a"{SECRET}"b";', "expected, after the value of password"),
        (f'{PLAIN} required password="{SECRET};', "close the quotes"),
        (f'{PLAIN} required password="{SECRET}\n";', "close the quotes"),
        (f"{PLAIN} required password={SECRET}@x;", "name="),
        (f"{PLAIN} required password=7{SECRET};", "the value of password"),
        (f"{PLAIN} required keyTab=/etc/{SECRET};", "the value of keyTab is missing or has to stand in quotes"),
        (f"{PLAIN} required password=;", "the value of password"),
        (f"{PLAIN} required {SECRET}=;", "the value of an option"),
        (f'{PLAIN} required /* password="{SECRET}";', "semicolon is missing"),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
        (f"{PLAIN} required;;", "one login module"),
        (f"{SECRET}.x{SECRET} required;", "is not known; known are org.apache.kafka"),
        ("com.example.OwnLoginModule required;", "com.example.OwnLoginModule is not known"),
    ],
)
def test_errors_say_what_is_wrong_and_no_secret(text: str, says: str) -> None:
    message = refusal(text)
    assert message.startswith("sasl.jaas.config: ")
    assert says in message
    assert SECRET not in message


@given(st.dictionaries(st.from_regex(r"[a-z]\w{0,5}", fullmatch=True), st.text(max_size=20), max_size=4))
def test_what_is_quoted_comes_back(options: dict[str, str]) -> None:
    def quoted(text: str) -> str:
        return '"' + "".join(f"\\{ord(char):03o}" if char in '"\\\r\n' else char for char in text) + '"'

    text = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert parse_jaas(f"{PLAIN} required {text};").options == options


@given(st.text(alphabet=" =;/*\"'\\\nжы", max_size=40))
def test_any_text_is_parsed_or_refused_without_secrets(text: str) -> None:
    try:
        parse_jaas(f"{PLAIN} required {text}")
    except ConfigError as error:
        message = str(error)
    else:
        message = ""
    assert not set("жы") & set(message)


PIECES = [
    *(PLAIN, "required", "SUFFICIENT", "username", "password", "a-b_c$d.e", "größe", "=", ";", " ", "\n", "\t"),
    *('"a\\"b"', "'c\\'d'", '"\\101\\8\\n\\z\\400"', '"// no comment"', "// comment\n", "/* comment */", "/ comment\n"),
    *("12", ".5", "-1", "x1.2", "@", ",", "\u0085", "\u00a0", "true", '""', "/**/", "*/"),
]


def texts(seed: int, count: int) -> list[str]:
    """Return well-formed texts with some changes, so that many are taken and many refused."""
    chance = random.Random(seed)
    found = []
    for _ in range(count):
        pieces = [PLAIN, " ", chance.choice(["required", "OPTIONAL"]), " "]
        for _ in range(chance.randrange(4)):
            value = chance.choice([piece for piece in PIECES if piece[0] in "\"'tx"])
            pieces += [
                chance.choice(["username", "größe", "a-b_c$d.e", '"quoted"']),
                "=",
                value,
                chance.choice(" \n\t"),
            ]
        pieces += [";"]
        for _ in range(chance.choice([0, 0, 1, 2])):
            at = chance.randrange(len(pieces))
            pieces[at : at + chance.randrange(2)] = [chance.choice(PIECES)]
        found.append("".join(pieces))
    return found


@pytest.mark.peer
@pytest.mark.usefixtures("processes")
def test_kafka_parses_alike() -> None:
    """Kafka itself reads the same texts. Our parser refuses more: unclosed quotes, and unknown modules."""
    require(java.missing())
    given_texts = texts(7, 600)
    printed = java.run_java(
        kafka_classpath(KAFKA_4),
        str(Path(__file__).with_name("JaasTexts.java")),
        stdin="\n".join(b64encode(text.encode()).decode() for text in given_texts),
    )
    taken = 0
    for text, line in zip(given_texts, printed.splitlines(), strict=True):
        try:
            login = parse_jaas(text)
        except ConfigError as error:
            excused = "close the quotes" in str(error) or "is not known" in str(error)
            assert line == "refused" or excused, (text, line)
            continue
        words = [b64decode(word).decode() for word in line.split(" ")] if line != "refused" else []
        options = [word for pair in sorted(login.options.items()) for word in pair]
        assert words == [login.module.value, login.flag, *options], text
        taken += 1
    assert 100 < taken < 500


# -- files

FILE = """
/* As a broker of Kafka has it. */
KafkaServer {
    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="broker" password="b;}" // a comment
        user_broker="b;}";
    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;
};
out.KafkaServer { a.B optional; };
Empty { };
"""


def test_the_sections_of_a_file() -> None:
    found = parse_sections(FILE, "file")
    assert list(found) == ["KafkaServer", "out.KafkaServer", "Empty"]
    plain, krb5 = found["KafkaServer"]
    assert plain[2] == {"username": "broker", "password": "b;}", "user_broker": "b;}"}
    assert krb5 == ("com.sun.security.auth.module.Krb5LoginModule", "required", {"useKeyTab": "true"})
    assert found["out.KafkaServer"] == [("a.B", "optional", {})]
    assert found["Empty"] == []
    assert parse_sections(" // nothing\n", "file") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("KafkaServer", "a section is expected"),
        ("{ a.B required; };", "a section is expected"),
        ("KafkaServer { a.B required; }", "the end of a section"),
        ("KafkaServer { a.B required; ", "the end of a section"),
        ("KafkaServer { a.B required }; ", "a semicolon is expected"),
        ("KafkaServer { a.B sometimes; };", "one of required"),
        ("A { };\nA { };", "another section of this name before \\(line 2\\)"),
        ('A { a.B required x="tell-nobody; };', "close the quotes"),
    ],
)
def test_what_is_no_file(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=f"^file: .*{words}") as caught:
        parse_sections(text, "file")
    assert "tell-nobody" not in str(caught.value)


@given(st.text(alphabet="ab.=;{}\"' \n", max_size=30))
def test_any_text_is_a_file_or_refused(text: str) -> None:
    with suppress(ConfigError):
        parse_sections(text, "file")
