"""Test the rules that make users of the names in certificates: what Kafka makes of them."""

from __future__ import annotations

import pytest

from broker.security.tls.principal_rules import PrincipalRules, RulesError

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
        "DEFAULT",
    ]
)


@pytest.mark.parametrize(
    ("name", "user"),
    [
        (DUKE, "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("CN=Zoë,OU=ServiceUsers", "zoë"),
    ],
)
def test_the_first_rule_that_is_true_of_the_whole_name_decides(name: str, user: str) -> None:
    assert PrincipalRules(RULES).user_of(name) == user


@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("RULE:^CN=((\\\\, *|\\w)+)(,.*|$)/$1/,DEFAULT", "CN=Tkac\\, Adam,OU=ITZ,DC=cz", "Tkac\\, Adam"),
        ("RULE:CN=(?<user>[a-z]+)/${user}-${user}/", "CN=a", "a-a"),
        ("RULE:(a)(b)(c)/$3$2$1$12$4/", "abc", "cbaa2$4"),
        ("RULE:(a)(b)?/[$2]/", "a", "[]"),
        ("RULE:a/\\$1\\/\\\\/", "a", "$1/\\"),
        ("RULE:.*/x/", "abc", "xx"),
        ("RULE:CN=.*/$0/U", "CN=a", "CN=A"),
        ("RULE:b/x/", "abc", None),
        ("", "abc", None),
    ],
)
def test_replacements(rules: str, name: str, user: str | None) -> None:
    assert PrincipalRules(rules).user_of(name) == user


@pytest.mark.parametrize(
    ("rules", "count"),
    [
        ("", 0), ("DEFAULT", 1), ("RULE://", 1), ("RULE:/.*/L", 1), ("RULE://,DEFAULT", 2), (" RULE:// ,  DEFAULT ", 2),
        ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ", 3), (",   , , ,      , , ,   ", 0),
        (",,RULE://,,,DEFAULT,,", 2), ("RULE:\\**\\/+/*/L,RULE:\\/*\\**/**/", 2),
        ("RULE:,RULE:,/,RULE:,\\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT", 5),
    ],
)  # fmt: skip
def test_how_rules_are_separated(rules: str, count: int) -> None:
    assert len(PrincipalRules(rules).rules) == count


@pytest.mark.parametrize(
    "rules",
    [
        "default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/", "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L", "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:(?=a)b/c/", "RULE:(a/b/", "RULE:a/$1/", "RULE:(a)/$x/", "RULE:(a)/${no}/", "RULE:(a)/b$/",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_at_the_start(rules: str) -> None:
    with pytest.raises(RulesError, match=r"read|stands for"):
        PrincipalRules(rules)


def test_a_rule_that_would_take_for_ever_elsewhere() -> None:
    assert PrincipalRules("RULE:(a+)+b/x/,DEFAULT").user_of("a" * 5000) == "a" * 5000
