"""Tests of options of login modules without effect: one line names them and says what happens instead."""

from __future__ import annotations

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.properties.foreign import warnings_about
from kafkalog.client.security.jaas import OPTION_NAMES, LoginModule
from kafkalog.client.security.jaas_options import _READ, IGNORED, PREFIX

MECHANISMS = {module: module.mechanisms[0] for module in LoginModule}
OPTION = "kafka.sasl.jaas.config:"
START = f"without effect here: {OPTION}"


def warned(module: LoginModule, options: str) -> list[str]:
    config = ClientConfig.from_dict(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISMS[module],
            "sasl.jaas.config": f"{module.value} required {options};",
        }
    )
    return warnings_about(config.unknown, prefix="kafka.")


@pytest.mark.parametrize(
    ("module", "options", "warning"),
    [
        (
            LoginModule.AWS_MSK_IAM,
            'awsMaxRetries="7" awsMaxBackOffTimeMs="500" awsDebugCreds=true',
            (
                f"{START}awsDebugCreds (whose credentials these are is not asked for); {OPTION}awsMaxBackOffTimeMs, "
                f"{OPTION}awsMaxRetries (botocore retries, by AWS_RETRY_MODE and AWS_MAX_ATTEMPTS)"
            ),
        ),
        (
            LoginModule.AWS_MSK_IAM,
            "awsRoleAccessKeyId=a awsRoleSecretAccessKey=s3cret",
            f"{START}awsRoleAccessKeyId, {OPTION}awsRoleSecretAccessKey (they are used where awsRoleArn is given)",
        ),
        (
            LoginModule.KRB5,
            "useTicketCache=true renewTGT=false doNotPrompt=false",
            (
                f"{START}doNotPrompt (tickets come from a keytab or a cache, never from a password); {OPTION}renewTGT "
                "(tickets of a cache are renewed in any case)"
            ),
        ),
        (
            LoginModule.PLAIN,
            "username=u password=p pasword=s3cret s3cret=x",
            "the property kafka.sasl.jaas.config:pasword is not known and has no effect",
        ),
    ],
)
def test_what_has_no_effect_is_one_line(module: LoginModule, options: str, warning: str) -> None:
    assert warned(module, options) == [warning]


@pytest.mark.parametrize(
    ("module", "options"),
    [
        (LoginModule.KRB5, 'useKeyTab=true storeKey=true keyTab="/k" principal=p serviceName=kafka doNotPrompt=true'),
        (LoginModule.KRB5, "useTicketCache=true renewTGT=true debug=false isInitiator=true"),
        (LoginModule.AWS_MSK_IAM, "awsRoleArn=r awsRoleAccessKeyId=a awsRoleSecretAccessKey=s awsDebugCreds=false"),
        (LoginModule.SCRAM, "username=u password=p tokenauth=true"),
        (LoginModule.OAUTHBEARER, "clientId=a clientSecret=b extension_x=one userid=of-a-class"),
    ],
)
def test_nothing_is_said_of_what_happens(module: LoginModule, options: str) -> None:
    assert warned(module, options) == []


def test_every_option_that_errors_name_is_read_or_told_of() -> None:
    of_oauth = {"clientId", "clientSecret", "scope"}
    read = {name for names in _READ.values() for name in names.split()}
    told = {name.removeprefix(PREFIX) for name in IGNORED}
    assert {name for name in OPTION_NAMES if not name.startswith("ssl.")} == read | told | of_oauth
