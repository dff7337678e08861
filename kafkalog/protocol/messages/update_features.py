"""UpdateFeatures (key 57, versions 0 to 1): change the finalized levels of features (KIP-584).

Both versions are flexible. Version 1 tells upgrades and downgrades apart, and can only check a change (KIP-778).

Errors of a feature, and of the whole request: FEATURE_UPDATE_FAILED, INVALID_REQUEST, INVALID_UPDATE_VERSION,
CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER.
"""

from __future__ import annotations

from kafkalog.protocol.schema import Request, Response, Struct, array, boolean, int8, int16, int32, string


class UpdatableFeatureResult(Struct):
    feature: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class UpdateFeaturesResponse(Response, key=57, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0+")


class FeatureUpdateKey(Struct):
    feature: str = string("0+")
    max_version_level: int = int16("0+")  # the new level; 0 takes the feature out of use
    allow_downgrade: bool = boolean("0")
    upgrade_type: int = int8("1+", default=1)  # 1: upgrade; 2: downgrade without loss; 3: with loss


class UpdateFeaturesRequest(Request, key=57, versions="0-1", flexible="0+"):
    timeout_ms: int = int32("0+", default=60_000)  # REQUEST_TIMED_OUT after that
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey, "0+")
    validate_only: bool = boolean("1+")  # check the change, and do not make it
