"""Errors of tasks whose delegation token has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from kafkalog.client.errors import AuthenticationError, ConnectionFailedError


@contextmanager
def naming_ended_token(ends_at_ms: int | None) -> Iterator[None]:
    """Have errors say that a task's token has ended, if it has.

    Brokers may remove such a token, and refuse it then. Until they do, they close each connection that logs in by it
    (`SaslServerAuthenticator`), so that a task gets no further, and only sees connections that end.

    Args:
        ends_at_ms: The end of the token, in milliseconds since 1970; None if the task logs in otherwise.

    Raises:
        AuthenticationError: A broker could not be reached, or has refused the login, after the token's end.
    """
    try:
        yield
    except (AuthenticationError, ConnectionFailedError, TimeoutError) as error:
        if ends_at_ms is None or time.time() * 1000 < ends_at_ms:
            raise
        at = datetime.fromtimestamp(ends_at_ms / 1000, UTC).isoformat(timespec="seconds")
        raise AuthenticationError(
            f"the delegation token of this task has ended at {at}, and a task gets no other one: {error}. Make tasks "
            "shorter (minPartitions, maxRecordsPerPartition or maxOffsetsPerTrigger for reads, repartition for "
            "writes), or tokens longer (delegation.token.expiry.time.ms of the brokers)"
        ) from error
