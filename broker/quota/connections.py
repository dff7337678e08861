"""Connection quotas: how many connections per second are accepted from one address, and by the broker (KIP-612)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from broker.quota.entities import EntityType, QuotaEntity, QuotaKey, Quotas
from broker.quota.measures import Rate, Window

SWEEP_AT_LEAST = 1000
"""Unused addresses are removed only if there are at least so many addresses."""
_DEFAULT = QuotaEntity(((EntityType.IP, None),))


class ConnectionRates:
    """Measure the rate of accepted connections by address."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._default: float | None = None
        self._limits: dict[str, float] = {}
        self._rates: dict[str, Rate] = {}
        self._sweep_at = SWEEP_AT_LEAST
        self._of_broker = Rate(window, 0)

    def update(self, quotas: Quotas, addresses: Mapping[str, str]) -> None:
        """Replace the quotas.

        Args:
            quotas: the quotas of the cluster.
            addresses: the address of each entity that is named by a host name.
        """
        key = QuotaKey.CONNECTION_CREATION_RATE
        self._default = quotas.get(_DEFAULT, {}).get(key)
        self._limits = {
            canonical(addresses.get(entity.address, entity.address)): values[key]
            for entity, values in quotas.items()
            if entity.address is not None and key in values
        }
        if self._default is None and not self._limits:
            self._rates.clear()

    def refused_ms(self, address: str, now_ms: int) -> int:
        """Return how long (ms) to leave a connection above the quota open before closing it; 0 to accept it."""
        if self._default is None and not self._limits:
            return 0
        address = canonical(address)
        limit = self._limits.get(address, self._default)
        if limit is None:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            if len(self._rates) >= self._sweep_at:
                self._sweep(now_ms)
            rate = self._rates[address] = Rate(self._window, now_ms)
        wait_ms = rate.record(1, limit, now_ms)
        if wait_ms:
            # A refused connection does not count.
            rate.add(-1, now_ms)
        return min(wait_ms, self._window.sample_ms)

    def paused_ms(self, limit: int, now_ms: int) -> int:
        """Return how long (ms) to pause accepting, if this connection exceeds `limit` per second for the broker."""
        return min(self._of_broker.record(1, limit, now_ms), self._window.sample_ms)

    def _sweep(self, now_ms: int) -> None:
        kept = {address: rate for address, rate in self._rates.items() if now_ms - rate.last_ms < self._window.span_ms}
        self._rates = kept
        self._sweep_at = max(SWEEP_AT_LEAST, 2 * len(kept))


def is_address(name: str) -> bool:
    """Return whether `name` is an IPv4 or IPv6 address, not a host name."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def canonical(address: str) -> str:
    """Return the canonical form of an address: an IPv4-mapped IPv6 address becomes IPv4."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)
