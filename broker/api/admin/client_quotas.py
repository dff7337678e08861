"""DescribeClientQuotas (key 48), AlterClientQuotas (key 49) and DescribeUserScramCredentials (key 50)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.authorizer.model import AclOperation
from broker.controller.quotas import QuotaAlteration
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
)
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResult,
)
from kafkalog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)
from kafkalog.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@needs_cluster(AclOperation.DESCRIBE_CONFIGS)
async def handle_describe_client_quotas(request: Request) -> None:
    message: DescribeClientQuotasRequest = request.message
    components = [(each.entity_type, each.match_type, each.match) async for each in request.each(message.components)]
    try:
        found = request.broker.quota_controller.describe(components, strict=message.strict)
    except KafkaError as error:
        code, text = error_code(error), error_message(error)
        request.reply(DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None))
        return
    entries = []
    async for entity, values in request.each(found):
        entries.append(
            DescribeClientQuotasEntry(
                entity=[DescribeClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[DescribeClientQuotasValue(key=key, value=value) for key, value in values.items()],
            )
        )
    await request.answer(DescribeClientQuotasResponse(error_message=None, entries=entries))


async def handle_alter_client_quotas(request: Request) -> None:
    message: AlterClientQuotasRequest = request.message
    alterations = []
    async for entry in request.each(message.entries):
        parts = [(part.entity_type, part.entity_name) for part in entry.entity]
        changes = [(op.key, None if op.remove else op.value) for op in entry.ops]
        alterations.append(QuotaAlteration(parts, changes))
    outcomes: Sequence[KafkaError | None]
    if request.allows_cluster(AclOperation.ALTER_CONFIGS):
        outcomes = await request.broker.quota_controller.alter(alterations, validate_only=message.validate_only)
    else:
        outcomes = [ClusterAuthorizationFailedError()] * len(alterations)
    results = []
    async for alteration, error in request.each(zip(alterations, outcomes, strict=True)):
        entity = [AlterClientQuotasEntity(entity_type=kind, entity_name=name) for kind, name in alteration.parts]
        result = AlterClientQuotasResult(error_message=None, entity=entity)
        if error is not None:
            result.error_code, result.error_message = error_code(error), error_message(error)
        results.append(result)
    await request.answer(AlterClientQuotasResponse(entries=results), alterations, outcomes)


@needs_cluster(AclOperation.DESCRIBE)
async def handle_describe_user_scram_credentials(request: Request) -> None:
    """Serve DescribeUserScramCredentials: no user has credentials, because there are no SASL listeners.

    Kafka's tool sends the request together with one for a user's quotas.
    """
    message: DescribeUserScramCredentialsRequest = request.message
    results = []
    counts = Counter[str]()
    async for named in request.each(message.users or ()):
        counts[named.name] += 1
    async for user, count in request.each(counts.items()):
        error = (
            DuplicateResourceError(f"Cannot describe SCRAM credentials for the same user twice in one request: {user}")
            if count > 1
            else ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {user}")
        )  # fmt: skip
        result = DescribeUserScramCredentialsResult(user=user)
        result.error_code, result.error_message = error_code(error), error_message(error)
        results.append(result)
    await request.answer(DescribeUserScramCredentialsResponse(error_message=None, results=results), counts)


HANDLERS = {
    DescribeClientQuotasRequest: handle_describe_client_quotas,
    AlterClientQuotasRequest: handle_alter_client_quotas,
    DescribeUserScramCredentialsRequest: handle_describe_user_scram_credentials,
}
