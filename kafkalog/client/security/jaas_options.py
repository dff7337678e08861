"""Options of Java's login modules that have no effect here, and why.

They cause the same warning as ignored properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from kafkalog.client.security.jaas import OPTION_NAMES, PROPERTY, JaasLogin, LoginModule

_READ = {
    LoginModule.PLAIN: "username password",
    LoginModule.SCRAM: "username password tokenauth",
    # Tickets of a keytab are fetched anew, and those of a cache renewed, which storeKey and renewTGT are for.
    LoginModule.KRB5: "serviceName keyTab principal useKeyTab useTicketCache ticketCache storeKey",
    LoginModule.AWS_MSK_IAM: "awsProfileName awsRoleArn awsRoleSessionName awsRoleExternalId awsRoleAccessKeyId "
    "awsRoleSecretAccessKey awsRoleSessionToken awsStsRegion awsShouldUseFips",
}
"""Options with an effect. Those of OAUTHBEARER are not among them: a class of the user's may read any option."""
_BOTOCORE = "botocore retries, by AWS_RETRY_MODE and AWS_MAX_ATTEMPTS"
_NO_PASSWORD = "tickets come from a keytab or a cache, never from a password"
_REASONS = {
    "renewTGT": "tickets of a cache are renewed in any case",
    "doNotPrompt": _NO_PASSWORD,
    "useFirstPass": _NO_PASSWORD,
    "tryFirstPass": _NO_PASSWORD,
    "storePass": _NO_PASSWORD,
    "clearPass": _NO_PASSWORD,
    "isInitiator": "a client always initiates",
    "credsType": "a client always initiates",
    "refreshKrb5Config": "the Kerberos library decides when it reads krb5.conf",
    "debug": "only the Kerberos library can write a trace, where KRB5_TRACE names a file",
    "awsMaxRetries": _BOTOCORE,
    "awsMaxBackOffTimeMs": _BOTOCORE,
    "awsDebugCreds": "whose credentials these are is not asked for",
    "awsAddDefaultProviders": "only what the other options choose is tried",
    "awsMskRegionProvider": "the region is that of the broker's name, else that of AWS_DEFAULT_REGION or the profile",
}
_AS_HERE = {
    "renewTGT": "true",
    "doNotPrompt": "true",
    "useFirstPass": "false",
    "tryFirstPass": "false",
    "storePass": "false",
    "clearPass": "false",
    "isInitiator": "true",
    "credsType": "initiator",
    "debug": "false",
    "awsDebugCreds": "false",
    "awsAddDefaultProviders": "false",
}
"""Values that ask for what happens here anyway; nothing is said about them."""
_OF_ROLE = ("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken")
_WITHOUT_ROLE = "they are used where awsRoleArn is given"

PREFIX = f"{PROPERTY}:"
"""The prefix of an option's name where it is listed together with properties."""
IGNORED: Mapping[str, str] = MappingProxyType(
    {f"{PREFIX}{name}": reason for name, reason in (_REASONS | dict.fromkeys(_OF_ROLE, _WITHOUT_ROLE)).items()}
)
"""The reason why each of these options has no effect; names begin with `PREFIX`."""


def without_effect(login: JaasLogin) -> list[str]:
    """Return the names of the options that have no effect, with `PREFIX`.

    A name that nobody knows may be a part of a secret. It is among them only if it is close to one that is known.
    """
    if login.module not in _READ:
        return []
    read = frozenset(_READ[login.module].split())
    found = []
    for name, value in login.options.items():
        if name in _REASONS:
            heeded = value.lower() == _AS_HERE.get(name)
        elif name in _OF_ROLE:
            heeded = "awsRoleArn" in login.options
        else:
            heeded = name in read or not get_close_matches(name, OPTION_NAMES, n=1, cutoff=0.8)
        if not heeded:
            found.append(f"{PREFIX}{name}")
    return found
