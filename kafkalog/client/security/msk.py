"""The mechanism AWS_MSK_IAM: credentials from where AWS's tools find them, by the options of Java's IAMLoginModule."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from datetime import UTC, datetime
from typing import Any

from kafkalog import __version__
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientTimeoutError, ConfigError, ConnectionFailedError
from kafkalog.client.security.mechanisms import MechanismFactory
from kafkalog.protocol.wire.msk_iam import AwsCredentials, MskIam
from kafkalog.protocol.wire.sasl import Mechanism

_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?", re.IGNORECASE)
_SESSION_NAME = "kafkalog"
_BEFORE_END_S = 300.0
"""The time before their end at which the credentials of a role are replaced."""
_STS_TIMEOUT_S = 5.0
"""The time that each try to reach AWS's service of tokens may take to connect, and then to answer; not AWS's minute."""
_OUTAGE_STATUS = 500
"""From this HTTP status on, the service of tokens has failed, and has refused nothing."""


def msk_iam(config: ClientConfig) -> MechanismFactory:
    """Make what makes the mechanisms of a client.

    Raises:
        ConfigError: The package botocore is missing, or a profile that the options name.
    """
    credentials = _Credentials({} if config.jaas is None else config.jaas.options)

    def make(host: str, deadline: float) -> Mechanism:
        region = region_of(host) or credentials.region()
        return MskIam(host, region, credentials.get(deadline), f"kafkalog/{__version__}", datetime.now(UTC))

    return make


def region_of(host: str) -> str | None:
    """Return the region in the name of one of MSK's brokers; None in any other name."""
    found = _REGION.search(host)
    return found[1].lower() if found else None


class _Credentials:
    """The credentials that the options choose; several threads may ask for them.

    Args:
        options: Those of IAMLoginModule: `awsProfileName`; `awsRoleArn` with `awsRoleSessionName`, `awsRoleExternalId`,
            `awsStsRegion` and `awsShouldUseFips`; and `awsRoleAccessKeyId`, `awsRoleSecretAccessKey` and
            `awsRoleSessionToken`, with which the role is assumed in place of other credentials.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        try:
            from botocore.exceptions import ProfileNotFound
            from botocore.session import Session
        except ImportError:
            raise ConfigError(
                "sasl.mechanism=AWS_MSK_IAM needs the package botocore: pip install 'kafkalog[msk]'"
            ) from None
        self._options = dict(options)
        self._for_role = _of_options(options)
        self._lock = threading.Lock()
        self._request: Future[AwsCredentials] | None = None
        """The search for credentials that is under way."""
        self._of_role: AwsCredentials | None = None
        self._role_ends = 0.0
        profile = options.get("awsProfileName")
        try:
            self._session: Any = Session(profile=profile)
            self._session.get_scoped_config()
        except ProfileNotFound:
            raise ConfigError(f"sasl.jaas.config: awsProfileName={profile}: no such profile in AWS's files") from None

    def region(self) -> str:
        """Return the region that AWS's tools would use.

        Raises:
            AuthenticationError: None is configured.
        """
        region = self._session.get_config_variable("region")
        if not region:
            raise AuthenticationError(
                "the broker's name has no AWS region; set AWS_DEFAULT_REGION or the region of the profile"
            )
        return str(region)

    def get(self, deadline: float) -> AwsCredentials:
        """Return credentials that can be used now.

        Args:
            deadline: How long to wait for them (`time.monotonic`). The search goes on after that, for the next call.

        Raises:
            AuthenticationError: There are none.
            ConnectionFailedError: The server that gives them cannot be reached at present.
            ClientTimeoutError: They did not come in time.
        """
        with self._lock:
            request = self._request
            if request is None:
                request = Future()
                threading.Thread(target=self._find, args=(request,), name="kafkalog-aws", daemon=True).start()
                # Now there is a thread that ends it.
                self._request = request
        try:
            return request.result(min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX))
        except FutureTimeoutError:
            raise ClientTimeoutError("no AWS credentials came in time") from None
        except (AuthenticationError, ConnectionFailedError) as error:
            # Several threads may wait for the same search; each raises an error of its own.
            raise type(error)(str(error)) from error

    def _find(self, request: Future[AwsCredentials]) -> None:
        """Look for credentials, on a thread of its own: servers may have to be asked, and they may be slow."""
        failure: Exception
        try:
            found = self._assumed() if "awsRoleArn" in self._options else self._own()
        except (AuthenticationError, ConnectionFailedError) as error:
            failure = error
        except Exception as error:  # a defect must not leave the waiting threads waiting
            from botocore.exceptions import BotoCoreError, ConnectionError, HTTPClientError, SSLError

            is_outage = isinstance(error, ConnectionError | HTTPClientError) and not isinstance(error, SSLError)
            kind = ConnectionFailedError if is_outage else AuthenticationError
            reason = str(error) if isinstance(error, BotoCoreError) else repr(error)
            failure = kind(f"no AWS credentials: {reason}")
        else:
            self._end()
            request.set_result(found)
            return
        self._end()
        request.set_exception(failure)

    def _end(self) -> None:
        with self._lock:
            self._request = None

    def _own(self) -> AwsCredentials:
        found = self._session.get_credentials()
        if found is None:
            raise AuthenticationError(
                "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or awsProfileName in "
                "sasl.jaas.config, or run where an instance or container has a role"
            )
        frozen = found.get_frozen_credentials()
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token)

    def _assumed(self) -> AwsCredentials:
        if self._of_role is not None and time.time() < self._role_ends - _BEFORE_END_S:
            return self._of_role
        from botocore.config import Config
        from botocore.exceptions import ClientError

        options = self._options
        own = self._for_role or self._own()
        sts = self._session.create_client(
            "sts",
            region_name=options.get("awsStsRegion") or self._session.get_config_variable("region") or "us-east-1",
            aws_access_key_id=own.access_key,
            aws_secret_access_key=own.secret_key,
            aws_session_token=own.session_token,
            config=Config(
                use_fips_endpoint=options.get("awsShouldUseFips", "").lower() == "true" or None,
                connect_timeout=_STS_TIMEOUT_S,
                read_timeout=_STS_TIMEOUT_S,
            ),
        )
        more = {"ExternalId": options["awsRoleExternalId"]} if "awsRoleExternalId" in options else {}
        role = options["awsRoleArn"]
        try:
            answer = sts.assume_role(
                RoleArn=role, RoleSessionName=options.get("awsRoleSessionName") or _SESSION_NAME, **more
            )
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            kind = ConnectionFailedError if status >= _OUTAGE_STATUS else AuthenticationError
            raise kind(f"sasl.jaas.config: awsRoleArn={role}: {error}") from error
        found = answer["Credentials"]
        self._of_role = AwsCredentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        self._role_ends = found["Expiration"].timestamp()
        return self._of_role


def _of_options(options: Mapping[str, str]) -> AwsCredentials | None:
    """Return the credentials that the options have for assuming the role; None where they have none.

    Raises:
        ConfigError: Of the identifier and the secret, one is missing.
    """
    key, secret = options.get("awsRoleAccessKeyId"), options.get("awsRoleSecretAccessKey")
    if "awsRoleArn" not in options or (key is None and secret is None):
        return None
    if key is None or secret is None:
        raise ConfigError("sasl.jaas.config: give both awsRoleAccessKeyId and awsRoleSecretAccessKey, or neither")
    return AwsCredentials(key, secret, options.get("awsRoleSessionToken"))
