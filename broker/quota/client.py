"""The quotas of users and client ids: computes from a request's usage how long its client has to wait.

There are four independent kinds of quota (see `Kind`). Usage of a kind is recorded only while a quota of it is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from broker.quota.entities import QuotaKey, Quotas
from broker.quota.limits import ClientLimits, Limit, Share
from broker.quota.measures import Measure, Rate, TokenBucket, Window
from kafkalog.protocol.errors import ThrottlingQuotaExceededError

SWEEP_AT_LEAST = 1000
"""Unused shares are removed only if there are at least so many shares."""


class Kind(Enum):
    """The kinds of quota: Kafka's name, and the quota key."""

    PRODUCE = "Produce", QuotaKey.PRODUCER_BYTE_RATE
    FETCH = "Fetch", QuotaKey.CONSUMER_BYTE_RATE
    REQUEST = "Request", QuotaKey.REQUEST_PERCENTAGE
    CONTROLLER_MUTATION = "ControllerMutation", QuotaKey.CONTROLLER_MUTATION_RATE

    @property
    def key(self) -> str:
        return self.value[1]


class Used(NamedTuple):
    """The usage of one share, for metrics."""

    share: Share
    value: float
    throttled: int
    """The number of throttled requests."""
    throttled_ms: int
    """The sum of their throttle times."""


class _Share:
    __slots__ = ("measure", "throttled", "throttled_ms")

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self.throttled = 0
        self.throttled_ms = 0


class ClientQuota:
    """One kind of quota. Call `record` only while it is `limited`."""

    def __init__(
        self,
        kind: Kind,
        window: Window,
        measure: Callable[[Window, int], Measure] = Rate,
        longest_ms: int | None = None,
    ) -> None:
        self.kind = kind
        self.limited = False
        self._window = window
        self._measure = measure
        self._longest_ms = longest_ms
        self._limits = ClientLimits({}, kind.key)
        self._shares: dict[Share, _Share] = {}
        self._sweep_at = SWEEP_AT_LEAST
        self._found: dict[tuple[str, str], Limit] = {}
        """A cache of the limits of clients."""

    def update(self, quotas: Quotas) -> None:
        """Replace the quotas; earlier usage still counts."""
        self._limits = ClientLimits(quotas, self.kind.key)
        self.limited = bool(self._limits)
        self._found.clear()
        if not self.limited:
            self._shares.clear()

    def limit(self, user: str, client_id: str) -> Limit:
        """Return the limit that applies to a client."""
        found = self._found.get((user, client_id))
        if found is None:
            if len(self._found) >= SWEEP_AT_LEAST:
                self._found.clear()
            found = self._found[user, client_id] = self._limits.of(user, client_id)
        return found

    def record(self, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Record what a request used; return how long (ms) its client has to wait."""
        limit = self.limit(user, client_id)
        if limit.value is None:
            return 0
        share = self._share(limit.share, now_ms)
        wait_ms = share.measure.record(amount, limit.value, now_ms)
        return wait_ms if self._longest_ms is None else min(wait_ms, self._longest_ms)

    def throttled(self, user: str, client_id: str, wait_ms: int, now_ms: int) -> None:
        """Note for the metrics that a client is throttled by this quota."""
        share = self._share(self.limit(user, client_id).share, now_ms)
        share.throttled += 1
        share.throttled_ms += wait_ms

    def measure(self, user: str, client_id: str, now_ms: int) -> tuple[Measure, float] | None:
        """Return the measure of the client's share and its limit per second; None if no quota applies."""
        limit = self.limit(user, client_id)
        return None if limit.value is None else (self._share(limit.share, now_ms).measure, limit.value)

    def take_back(self, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Subtract recorded usage that did not take place."""
        limit = self.limit(user, client_id)
        if limit.value is not None:
            measure = self._share(limit.share, now_ms).measure
            assert isinstance(measure, Rate)
            measure.add(-amount, now_ms)

    def most_in_window(self, user: str, client_id: str) -> float:
        """Return how much the client may use at once, after a pause, without exceeding its quota."""
        value = self.limit(user, client_id).value
        if value is None:
            return float("inf")
        return value * (self._window.samples - 1) * self._window.sample_ms / 1000

    def used(self, now_ms: int) -> Iterator[Used]:
        """Yield every share with recent usage. Any thread may call this, so it changes no state."""
        for names, share in list(self._shares.items()):
            limit = self._limits.of(*names).value
            is_recent = now_ms - share.measure.last_ms < self._window.span_ms
            if limit is not None and (is_recent or not share.measure.is_over(limit, now_ms)):
                value = share.measure.per_second(limit, now_ms)
                yield Used(names, value, share.throttled, share.throttled_ms)

    def _share(self, names: Share, now_ms: int) -> _Share:
        share = self._shares.get(names)
        if share is None:
            if len(self._shares) >= self._sweep_at:
                self._sweep(now_ms)
            share = self._shares[names] = _Share(self._measure(self._window, now_ms))
        return share

    def _sweep(self, now_ms: int) -> None:
        """Forget the shares without recent usage."""
        kept = {}
        for names, share in self._shares.items():
            limit = self._limits.of(*names).value
            if limit is not None and not share.measure.is_over(limit, now_ms):
                kept[names] = share
        self._shares = kept
        self._sweep_at = max(SWEEP_AT_LEAST, 2 * len(kept))


class Mutations:
    """Records the partitions that one request creates and deletes against its client's quota.

    The request may take long, so each is counted at the time when it happens.
    """

    def __init__(
        self, quota: ClientQuota, user: str, client_id: str, clock: Callable[[], int], *, strict: bool
    ) -> None:
        self._quota = quota
        self._client = user, client_id
        self._clock = clock
        self._strict = strict
        self._waits_until_ms = 0

    def wait_ms(self, now_ms: int) -> int:
        """Return how long (ms) the client has to wait because it is above its quota."""
        return max(0, self._waits_until_ms - now_ms)

    def record(self, partitions: int) -> None:
        """Record that `partitions` partitions are about to be created or deleted.

        Raises:
            ThrottlingQuotaExceededError: the quota was already used up, and the client understands this error; the
                partitions must not be created or deleted.
        """
        now_ms = self._clock()
        found = self._quota.measure(*self._client, now_ms) if self._quota.limited else None
        if found is None:
            return
        bucket, limit = found
        assert isinstance(bucket, TokenBucket)
        owed_ms = bucket.wait_ms(limit, now_ms)
        if self._strict and owed_ms > 0:
            self._waits_until_ms = now_ms + owed_ms
            raise ThrottlingQuotaExceededError("The throttling quota has been exceeded.")
        wait_ms = bucket.record(partitions, limit, now_ms)
        if not self._strict:
            self._waits_until_ms = now_ms + wait_ms


class ClientQuotas:
    """The quotas of all kinds."""

    def __init__(self, window: Window, controller_window: Window) -> None:
        self.produce = ClientQuota(Kind.PRODUCE, window)
        self.fetch = ClientQuota(Kind.FETCH, window)
        # At most one sample: how long a request takes does not depend on the client alone.
        self.request = ClientQuota(Kind.REQUEST, window, longest_ms=window.sample_ms)
        self.mutation = ClientQuota(Kind.CONTROLLER_MUTATION, controller_window, TokenBucket)

    def __iter__(self) -> Iterator[ClientQuota]:
        return iter((self.produce, self.fetch, self.request, self.mutation))

    def update(self, quotas: Quotas) -> None:
        """Replace the quotas of all kinds."""
        for each in self:
            each.update(quotas)
