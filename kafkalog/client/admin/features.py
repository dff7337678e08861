"""Features of a cluster: the levels that brokers support, and those that are in use (KIP-584)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import kafkalog
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import about, left_out
from kafkalog.client.retry import Retry
from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from kafkalog.protocol.wire.core import SOFTWARE_NAME


class Feature(NamedTuple):
    """The levels of a feature that the broker supports, and the finalized level; 0 where it is not in use."""

    min_level: int
    max_level: int
    finalized: int


class UpgradeType(IntEnum):
    """The directions in which a level may change; a downgrade may lose metadata only where it is unsafe."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    """A new finalized level of a feature; a downgrade to 0 takes the feature out of use."""

    level: int
    kind: UpgradeType = UpgradeType.UPGRADE


class Features(NamedTuple):
    """The features of a cluster by name, and the epoch of the finalized ones, if there are any."""

    features: dict[str, Feature]
    epoch: int | None


def describe_features(cluster: Cluster) -> Features:
    """Ask a broker for the features of the cluster; there are none where brokers are too old to have features.

    Raises:
        ClientTimeoutError: No broker answers in time.
    """
    request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=kafkalog.__version__)
    response: ApiVersionsResponse = cluster.request_any(request)
    if response.error_code:
        raise about(response.error_code, "features")
    finalized = {each.name: each.max_version_level for each in response.finalized_features}
    return Features(
        {
            each.name: Feature(each.min_version, each.max_version, finalized.get(each.name, 0))
            for each in response.supported_features
        },
        None if response.finalized_features_epoch < 0 else response.finalized_features_epoch,
    )


def update_features(
    cluster: Cluster, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Change the finalized levels of features; return the error of each feature, or None.

    Args:
        cluster: The connections.
        updates: The new levels by the names of the features.
        validate_only: Change nothing, only find out whether it could be done.

    Raises:
        UnsupportedVersionError: The brokers have no features that can be changed, or only upgrade them.
        ClientTimeoutError: The controller does not answer in time.
    """

    def attempt(retry: Retry) -> UpdateFeaturesResponse:
        request = UpdateFeaturesRequest(
            timeout_ms=round(min(retry.left, cluster.config.request_timeout) * 1000),
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=each.level, upgrade_type=each.kind)
                for name, each in updates.items()
            ],
            validate_only=validate_only,
        )
        answer: UpdateFeaturesResponse = cluster.request_controller(request, deadline=retry.deadline)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            raise error_for(answer.error_code, answer.error_message)
        return answer

    response = cluster.on_controller(attempt)
    if response.error_code:
        return {name: error_for(response.error_code, response.error_message or None) for name in updates}
    outcomes: dict[str, KafkaError | None] = {name: left_out(f"feature {name}") for name in updates}
    for each in response.results:
        if each.feature in outcomes:
            outcomes[each.feature] = error_for(each.error_code, each.error_message or None) if each.error_code else None
    return outcomes
