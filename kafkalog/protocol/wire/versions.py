"""The versions of each API that both sides of a connection speak."""

from __future__ import annotations

from collections.abc import Iterable

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.api_versions import ApiVersion, SupportedFeatureKey
from kafkalog.protocol.schema import Request


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
            name = ApiKey(request_class.api_key).name
            ours = f"{max(min_version, request_class.min_version)} to {highest}"
            theirs = f"versions {low} to {high}" if high >= 0 else "no version"
            raise UnsupportedVersionError(f"{name} is spoken here in versions {ours}, by {self._peer} in {theirs}")
        if max_version is None and not min_version:
            self._newest[request_class] = version
        return version

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
