"""The versions of each API that both sides of a connection speak."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import ApiVersion, SupportedFeatureKey
from kafkalog.protocol.schema import Request
from kafkalog.protocol.wire.releases import release_with


class Versions:
    """The versions and features that the peer announced by ApiVersions, compared with those implemented here."""

    def __init__(
        self, peer: str, announced: Iterable[ApiVersion] = (), features: Iterable[SupportedFeatureKey] = ()
    ) -> None:
        self._peer = peer
        self._ranges = {each.api_key: (each.min_version, each.max_version) for each in announced}
        self._features = {each.name for each in features}
        self._newest: dict[type[Request], int] = {}

    def version_of(self, request_class: type[Request], max_version: int | None = None, min_version: int = 0) -> int:
        """Choose the newest version that both sides speak, within the bounds given.

        Raises:
            UnsupportedVersionError: There is none.
        """
        if max_version is None and not min_version:
            found = self._newest.get(request_class)
            if found is not None:
                return found
        low, high = self._ranges.get(request_class.api_key, (0, -1))
        highest = request_class.max_version if max_version is None else min(max_version, request_class.max_version)
        version = min(high, highest)
        if version < max(low, min_version, request_class.min_version):
            raise UnsupportedVersionError(
                self._refusal(ApiKey(request_class.api_key), max(min_version, request_class.min_version), highest)
            )
        if max_version is None and not min_version:
            self._newest[request_class] = version
        return version

    def _refusal(self, api: ApiKey, least: int, highest: int) -> str:
        """Tell why no version of an API will do, and which release of Apache Kafka has what is needed."""
        low, high = self._ranges.get(api, (0, -1))
        release = release_with(api, least)
        since = f"; brokers of Apache Kafka have it since {release}" if release else ""
        if high < 0:
            return f"{self._peer} does not support {api.name}{since}"
        if high < least:
            return f"{self._peer} supports {api.name} up to version {high}, and version {least} is needed{since}"
        return f"{self._peer} supports {api.name} from version {low} on, and this client up to version {highest}"

    def announces(self, request_class: type[Request]) -> bool:
        """Return whether the peer knows the request, in whichever versions."""
        return request_class.api_key in self._ranges

    def require(self, feature: str) -> None:
        """Check that the peer has announced a feature (KIP-584).

        Raises:
            UnsupportedVersionError: It has not.
        """
        if feature not in self._features:
            raise UnsupportedVersionError(f"{self._peer} does not support {feature}")
