"""Explain by access control lists why a principal may or may not do something. Pure.

Brokers decide so, too: one ACL that denies decides, otherwise one that allows does. READ, WRITE, DELETE and ALTER bring
DESCRIBE, and ALTER_CONFIGS brings DESCRIBE_CONFIGS. Super users may do everything, and are known to brokers only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkalog.client.admin.security.acls import AclBinding
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType

ANYBODY = "User:*"
ANY = "*"
_BROUGHT_BY = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


class Question(NamedTuple):
    """An operation of a principal with a resource, from an address."""

    principal: str
    operation: AclOperation
    resource_type: AclResourceType
    name: str
    host: str | None = None
    """The address; None for one that no ACL names."""


class Near(NamedTuple):
    """An ACL that nearly decides, and why it does not."""

    binding: AclBinding
    reason: str


class Explanation(NamedTuple):
    """The answer to a question."""

    is_allowed: bool
    deciding: AclBinding | None
    """The ACL that decides, if one does."""
    has_acls: bool
    """True if any ACL is about the resource, whoever it concerns. If not, allow.everyone.if.no.acl.found decides."""
    near: Sequence[Near]
    """ACLs that nearly allow it."""


def explain(question: Question, bindings: Iterable[AclBinding]) -> Explanation:
    """Answer a question by all ACLs of a cluster."""
    known = list(bindings)
    about = [each for each in known if _is_about(each, question)]
    matching = [each for each in about if _matches_who(each, question)]
    denying = [
        each
        for each in matching
        if each.permission is AclPermission.DENY and each.operation in (question.operation, AclOperation.ALL)
    ]
    allowing = [
        each for each in matching if each.permission is AclPermission.ALLOW and _allows(each, question.operation)
    ]
    deciding = next(iter([*denying, *allowing]), None)
    is_allowed = bool(allowing) and not denying
    near = [] if deciding is not None else list(_near(question, known))
    return Explanation(is_allowed, deciding, bool(about), near)


def _is_about(binding: AclBinding, question: Question) -> bool:
    if binding.resource_type is not question.resource_type:
        return False
    if binding.pattern_type is AclPatternType.PREFIXED:
        return question.name.startswith(binding.name)
    return binding.name in (question.name, ANY)


def _matches_who(binding: AclBinding, question: Question) -> bool:
    return binding.principal in (question.principal, ANYBODY) and binding.host in (question.host, ANY)


def _allows(binding: AclBinding, operation: AclOperation) -> bool:
    return binding.operation in (operation, AclOperation.ALL, *_BROUGHT_BY.get(operation, ()))


def _near(question: Question, known: Iterable[AclBinding]) -> Iterator[Near]:
    for each in known:
        if each.permission is not AclPermission.ALLOW or each.resource_type is not question.resource_type:
            continue
        is_about, does_allow = _is_about(each, question), _allows(each, question.operation)
        is_who = each.principal in (question.principal, ANYBODY)
        is_from = each.host in (question.host, ANY)
        if is_about and does_allow and is_who and not is_from:
            yield Near(each, f"it is for clients from {each.host}")
        elif is_about and does_allow and is_from and not is_who and _resembles(each.principal, question.principal):
            yield Near(each, "the principal is written otherwise")
        elif is_about and is_who and is_from and not does_allow and each.principal == question.principal:
            yield Near(each, f"it allows {each.operation.name} only")
        elif does_allow and is_who and is_from and not is_about and _looks_like_prefix(each, question):
            yield Near(each, "it is literal, and no prefix")


def _resembles(one: str, other: str) -> bool:
    """Return whether two principals differ in case or spaces only, as names of certificates do."""
    return "".join(one.split()).casefold() == "".join(other.split()).casefold()


def _looks_like_prefix(binding: AclBinding, question: Question) -> bool:
    is_longer = len(question.name) > len(binding.name)
    return is_longer and question.name.startswith(binding.name.removesuffix(ANY)) and len(binding.name) > 1
