"""Test the users that names of Kerberos stand for, by Kafka's own examples of rules."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.sasl.kerberos.names import KerberosName, NameRules, NoUserError, RulesError

REALM = "REALM.COM"
RULES = [
    r"RULE:[1:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[2:$1](App\..*)s/App\.(.*)/$1/g",
    r"RULE:[1:$1@$0](.*@OTHER\.COM)s/@.*//L",
    r"RULE:[2:$1;$2](.*;admin)s/;admin//U",
    "DEFAULT",
]


@pytest.mark.parametrize(
    ("name", "user"),
    [
        ("App.service-name/example.com@REALM.COM", "service-name"),
        ("App.service-name@REALM.COM", "service-name"),
        ("user/host@REALM.COM", "user"),
        ("user@REALM.COM", "user"),
        ("User@OTHER.COM", "user"),
        ("ann/admin@REALM.COM", "ANN"),
        ("simple", "simple"),
    ],
)
def test_users(name: str, user: str) -> None:
    assert NameRules(RULES, REALM).user_of(name) == user


@pytest.mark.parametrize("name", ["user/host@ELSEWHERE", "user@ELSEWHERE", "user@REALM.COM.EVIL", "user/host"])
def test_names_that_stand_for_nobody(name: str) -> None:
    with pytest.raises(NoUserError, match="no rule"):
        NameRules(RULES, REALM).user_of(name)


@pytest.mark.parametrize("name", ["", "@R", "a/b/c@R", "a@b@c", "/h@R", "a/@R"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(NoUserError, match="no name of Kerberos"):
        KerberosName.parse(name)


def test_a_rule_may_not_make_another_name() -> None:
    for rule in ("RULE:[1:$1@$0]", "RULE:[2:$1/$2]", "RULE:[1:$1](.*)s/.*//"):
        rules = NameRules([rule], REALM)
        with pytest.raises(NoUserError, match="is no user"):
            rules.user_of("ann/h@R" if "[2" in rule else "ann@R")


def test_replacements_are_javas() -> None:
    assert NameRules([r"RULE:[1:$1]s/(a)(b)/$2\$$1\\x/g"], REALM).user_of("abab@R") == r"b$a\xb$a\x"
    assert NameRules(["RULE:[1:$1]s/a/b/"], REALM).user_of("aaa@R") == "baa"


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:", "RULE:[1:$1", "RULE:[1:$2]", "RULE:[1:$1](()", "RULE:[1:$1]s/a/$1/", "DEFAULTX"]
)
def test_rules_that_cannot_be_read(rule: str) -> None:
    with pytest.raises(RulesError):
        NameRules([rule], REALM)


@given(st.text(alphabet="ab/@.$\\R", max_size=12))
def test_any_name_stands_for_a_user_or_nobody(name: str) -> None:
    try:
        found = NameRules(RULES, REALM).user_of(name)
    except NoUserError:
        return
    assert found
    assert not set(found) & set("/@")
