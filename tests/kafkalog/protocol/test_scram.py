"""Test the credentials of SCRAM users: the example of RFC 7677, their stored form, and what is refused."""

from __future__ import annotations

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.protocol.scram import CredentialError, ScramCredential, ScramMechanism

BOTH = list(ScramMechanism)


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = ScramCredential.of_password(ScramMechanism.SHA_256, "pencil", 4096, salt)
    # What the example's exchange proves: the keys of `WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=`.
    assert credential.text() == (
        "salt=W22ZaJ0SNY7soEsUEjb6gQ==,stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
        "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
    )


@pytest.mark.parametrize("mechanism", BOTH)
def test_the_stored_form_reads_back(mechanism: ScramMechanism) -> None:
    made = ScramCredential.of_password(mechanism, "secret")
    assert ScramCredential.parse(mechanism, made.text()) == made
    fields = made.text().split(",")
    assert ScramCredential.parse(mechanism, ",".join(reversed(fields))) == made
    assert ScramCredential.of_password(mechanism, "secret").salt != made.salt


@pytest.mark.parametrize("mechanism", BOTH)
def test_nothing_shows_the_keys(mechanism: ScramMechanism) -> None:
    made = ScramCredential.of_password(mechanism, "secret")
    assert repr(made) == "ScramCredential(iterations=4096)"


def test_a_number_has_a_mechanism_and_the_reverse() -> None:
    assert [ScramMechanism.of_type(number) for number in range(4)] == [None, *BOTH, None]
    assert [each.type for each in BOTH] == [1, 2]
    assert [ScramMechanism.of_name(each.value) for each in BOTH] == BOTH
    assert ScramMechanism.of_name("PLAIN") is None


WHOLE = "salt=c2FsdA==,stored_key={key},server_key={key},iterations=4096"
KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=c2FsdA==",
        WHOLE.format(key=KEY) + ",iterations=4096",
        WHOLE.format(key=KEY) + ",more=1",
        WHOLE.format(key="a2V5"),
        WHOLE.format(key="AAAA*AAA"),
        WHOLE.format(key=KEY).replace("c2FsdA==", ""),
        WHOLE.format(key=KEY).replace("4096", "0"),
        WHOLE.format(key=KEY).replace("4096", "-4096"),
        WHOLE.format(key=KEY).replace("4096", "٤٠٩٦"),
        WHOLE.format(key=KEY).replace("4096", "9" * 5000),
    ],
)
def test_a_damaged_credential_is_refused_without_being_shown(text: str) -> None:
    ScramCredential.parse(ScramMechanism.SHA_256, WHOLE.format(key=KEY))
    with pytest.raises(CredentialError) as caught:
        ScramCredential.parse(ScramMechanism.SHA_256, text)
    assert "c2FsdA" not in str(caught.value)
    assert "a2V5" not in str(caught.value)


@given(st.text())
def test_any_text_is_a_credential_or_refused(text: str) -> None:
    try:
        made = ScramCredential.parse(ScramMechanism.SHA_512, text)
    except CredentialError:
        return
    assert ScramCredential.parse(ScramMechanism.SHA_512, made.text()) == made
