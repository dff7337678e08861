"""Tokens of clusters: made when one is needed, kept by the process, and replaced before they end.

As Spark does, a new token is made when three quarters of its time have passed (`spark.security.credentials.
renewalRatio`). A thread makes it. The present token is used if the new one does not come soon: no query has to wait
for servers that do not answer. Tokens are not ended here: tasks may still use them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kafkalog.client.admin.security.delegation_tokens import DelegationToken, DelegationTokenAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError, ClientError, ConfigError, ConnectionFailedError, is_retriable
from kafkalog.protocol.errors import KafkaError
from spark_kafkalog.delegation.clusters import PREFIX, TokenCluster
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.process_cache import ProcessCache

logger = logging.getLogger(__name__)

RENEWAL_RATIO = 0.75
"""The part of a token's time after which the next one is made."""
KNOWN_AFTER_S = 5.0
"""The longest time to wait until all brokers know a new token."""
PATIENCE_S = 2.0
"""The time to wait for a new token while the present one can still be used."""
RETRY_AFTER_S = 10.0
"""The time for which a token that could not be replaced is used before the next try."""


class TokenSource:
    """The tokens of one cluster. Several threads may use it.

    Args:
        cluster: The settings of the cluster.
        make: Has a token made.
        clock: The time in seconds since 1970.
    """

    def __init__(
        self,
        cluster: TokenCluster,
        make: Callable[[TokenCluster], DelegationToken] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._make = _make if make is None else make
        self._clock = clock
        self._lock = threading.Lock()
        self._token: DelegationToken | None = None
        self._replace_at = 0.0

    def token(self) -> DelegationToken:
        """Return a token that can be used for some time.

        Raises:
            OptionsError: The settings of the cluster are no client properties.
            AuthenticationError: The brokers give no token.
            ConnectionFailedError: They cannot be asked at present.
        """
        with self._lock:
            now = self._clock()
            present = self._token
            if present is None or now >= present.expires_at / 1000:
                # An old token would only be refused.
                self._token = None
                return self._keep(self._made())
            if now < self._replace_at:
                return present
            # One thread at a time.
            self._replace_at = float("inf")
            replacing = threading.Thread(
                target=self._replace, args=(present,), name="kafkalog-delegation-token", daemon=True
            )
            replacing.start()
        # A task may take longer than the rest of the present token's time.
        replacing.join(PATIENCE_S)
        with self._lock:
            return present if self._token is None else self._token

    def _made(self) -> DelegationToken:
        try:
            return self._make(self._cluster)
        except ConfigError as error:
            raise OptionsError(f"{PREFIX}{self._cluster.alias}: {error}") from None
        except (ClientError, KafkaError) as error:
            raise self._failed(error) from error

    def _keep(self, token: DelegationToken) -> DelegationToken:
        """Keep a new token and return it; the caller holds the lock."""
        now = self._clock()
        self._token = token
        self._replace_at = now + (token.expires_at / 1000 - now) * RENEWAL_RATIO
        return token

    def _replace(self, present: DelegationToken) -> None:
        try:
            token = self._make(self._cluster)
        except (ClientError, KafkaError) as error:
            self._put_off(present, error)
        except Exception as error:  # a defect must not end the tries
            logger.exception("no delegation token by %s%s", PREFIX, self._cluster.alias)
            self._put_off(present, error)
        else:
            with self._lock:
                self._keep(token)

    def _put_off(self, present: DelegationToken, error: Exception) -> None:
        with self._lock:
            if self._token is not present:
                return
            now = self._clock()
            self._replace_at = now + RETRY_AFTER_S
        logger.warning(
            "the delegation token of %s%s could not be replaced; it can be used for another %.0f s: %s",
            PREFIX,
            self._cluster.alias,
            max(present.expires_at / 1000 - now, 0.0),
            error,
        )

    def _failed(self, error: Exception) -> ClientError:
        kind = ConnectionFailedError if is_retriable(error) else AuthenticationError
        return kind(f"no delegation token by {PREFIX}{self._cluster.alias}: {error}")


def _make(cluster: TokenCluster) -> DelegationToken:
    with DelegationTokenAdmin(ClientConfig.from_dict(dict(cluster.login))) as admin:
        token = admin.create()
        try:
            if not admin.await_known(token, KNOWN_AFTER_S):
                logger.warning("%s%s: not all brokers know the new delegation token", PREFIX, cluster.alias)
        except (ClientError, KafkaError) as error:
            # A broker that cannot be asked may be one that this query does not need.
            logger.warning(
                "%s%s: it is not known whether all brokers know the new delegation token: %s",
                PREFIX,
                cluster.alias,
                error,
            )
        return token


_SOURCES: ProcessCache[TokenCluster, TokenSource] = ProcessCache(8)


def token_for(cluster: TokenCluster) -> DelegationToken:
    """Return the present token of a cluster, one for all queries of this process; have it made where there is none.

    Raises:
        OptionsError: The settings of the cluster are no client properties.
        AuthenticationError: The brokers give no token.
        ConnectionFailedError: They cannot be asked at present.
    """
    return _SOURCES.get(cluster, lambda: TokenSource(cluster)).token()
