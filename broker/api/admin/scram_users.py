"""DescribeUserScramCredentials (key 50) and AlterUserScramCredentials (key 51)."""

from __future__ import annotations

from collections import Counter

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code, error_message
from broker.controller.security.scram_users import Deletion, ScramUsers, Upsertion
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    DuplicateResourceError,
    KafkaError,
    ResourceNotFoundError,
)
from kafkalog.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from kafkalog.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@needs_cluster(AclOperation.DESCRIBE)
async def handle_describe_user_scram_credentials(request: Request) -> None:
    """Serve DescribeUserScramCredentials: mechanisms and iterations of all users, or of some."""
    message: DescribeUserScramCredentialsRequest = request.message
    users = request.broker.scram_users
    counts = Counter[str]()
    async for named in request.each(message.users or ()):
        counts[named.name] += 1
    if not message.users:
        counts.update(sorted(users.names))
    results = []
    async for user, count in request.each(counts.items()):
        results.append(_described(users, user, count))
    await request.answer(DescribeUserScramCredentialsResponse(error_message=None, results=results), counts)


def _described(users: ScramUsers, user: str, count: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, error_message=None)
    credentials = users.of(user)
    error: DuplicateResourceError | ResourceNotFoundError
    if not user:
        error = ResourceNotFoundError("Username must not be empty")
    elif count > 1:
        error = DuplicateResourceError(
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
    elif not credentials:
        error = ResourceNotFoundError(f"Attempt to describe a user credential that does not exist: {user}")
    else:
        result.credential_infos = [
            CredentialInfo(mechanism=mechanism.type, iterations=credentials[mechanism].iterations)
            for mechanism in sorted(credentials, key=lambda each: each.type)
        ]
        return result
    result.error_code, result.error_message = error_code(error), error_message(error)
    return result


async def handle_alter_user_scram_credentials(request: Request) -> None:
    message: AlterUserScramCredentialsRequest = request.message
    deletions = [Deletion(each.name, each.mechanism) async for each in request.each(message.deletions)]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        async for each in request.each(message.upsertions)
    ]
    refusal: KafkaError | None = request.refusal
    if refusal is None and not request.allows_cluster(AclOperation.ALTER):
        refusal = ClusterAuthorizationFailedError()
    if refusal is None:
        outcomes = await request.broker.scram_users.alter(deletions, upsertions)
    else:
        changes: list[Deletion | Upsertion] = [*deletions, *upsertions]
        outcomes = {each.user: refusal async for each in request.each(changes)}
    results = []
    async for user, error in request.each(outcomes.items()):
        result = AlterUserScramCredentialsResult(user=user, error_message=None)
        if error is not None:
            result.error_code, result.error_message = error_code(error), error_message(error)
        results.append(result)
    await request.answer(AlterUserScramCredentialsResponse(results=results), deletions, upsertions, outcomes)


HANDLERS = {
    DescribeUserScramCredentialsRequest: handle_describe_user_scram_credentials,
    AlterUserScramCredentialsRequest: handle_alter_user_scram_credentials,
}
