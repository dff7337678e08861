"""DescribeClientQuotas (key 48) and AlterClientQuotas (key 49)."""

from __future__ import annotations

from collections.abc import Sequence

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.controller.quotas import QuotaAlteration
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import ClusterAuthorizationFailedError, KafkaError
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


HANDLERS = {
    DescribeClientQuotasRequest: handle_describe_client_quotas,
    AlterClientQuotasRequest: handle_alter_client_quotas,
}
