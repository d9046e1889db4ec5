"""ACLs of a cluster: stored and listed, not enforced; a test denies a permission by a fault.

Rules: Kafka's ``AclApis`` and ``AccessControlEntryFilter``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from srm_common.testing.fake_cluster.messages import Answer, Call, Refused

_SECURITY_DISABLED, _INVALID_REQUEST = 54, 42
_ANY = 1
_MATCH, _LITERAL, _PREFIXED = 2, 3, 4


class Acl(NamedTuple):
    """Numbers are those of Kafka's protocol."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class Acls:
    """``authorizer``: whether the brokers have one; without, every question is answered with SECURITY_DISABLED."""

    def __init__(self, *, authorizer: bool) -> None:
        self.authorizer = authorizer
        self.bindings: list[Acl] = []

    def handlers(self) -> dict[str, Any]:
        return {"DescribeAcls": self._describe, "CreateAcls": self._create, "DeleteAcls": self._delete}

    def _check(self, call: Call) -> None:
        call.check()
        if not self.authorizer:
            raise Refused(_SECURITY_DISABLED, "No Authorizer is configured.")

    def _describe(self, call: Call) -> Answer:
        try:
            self._check(call)
        except Refused as refused:
            return {"error_code": refused.code, "error_message": refused.message, "resources": []}
        resources: dict[tuple[int, str, int], list[Answer]] = {}
        for acl in self._matching(call.body):
            resources.setdefault(acl[:3], []).append(_entry(acl))
        return {
            "error_code": 0,
            "error_message": None,
            "resources": [
                {"resource_type": kind, "resource_name": name, "pattern_type": pattern, "acls": entries}
                for (kind, name, pattern), entries in resources.items()
            ],
        }

    def _create(self, call: Call) -> Answer:
        results = []
        for creation in call.body.creations:
            code, message = 0, None
            try:
                self._check(call)
                if creation.resource_pattern_type not in (_LITERAL, _PREFIXED) or ":" not in creation.principal:
                    raise Refused(_INVALID_REQUEST, f"invalid ACL of {creation.principal}")
                acl = Acl(
                    *(creation.resource_type, creation.resource_name, creation.resource_pattern_type),
                    *(creation.principal, creation.host, creation.operation, creation.permission_type),
                )
                if acl not in self.bindings:
                    self.bindings.append(acl)
            except Refused as refused:
                code, message = refused.code, refused.message
            results.append({"error_code": code, "error_message": message})
        return {"results": results}

    def _delete(self, call: Call) -> Answer:
        results: list[Answer] = []
        for one in call.body.filters:
            try:
                self._check(call)
            except Refused as refused:
                results.append({"error_code": refused.code, "error_message": refused.message, "matching_acls": []})
                continue
            gone = self._matching(one)
            self.bindings = [kept for kept in self.bindings if kept not in gone]
            matching = [
                {
                    "error_code": 0,
                    "resource_type": acl.resource_type,
                    "resource_name": acl.resource_name,
                    "pattern_type": acl.pattern_type,
                    **_entry(acl),
                }
                for acl in gone
            ]
            results.append({"error_code": 0, "error_message": None, "matching_acls": matching})
        return {"filter_results": results}

    def _matching(self, wanted: Any) -> list[Acl]:
        return [
            binding
            for binding in self.bindings
            if wanted.resource_type_filter in (_ANY, binding.resource_type)
            and _names(wanted, binding)
            and wanted.principal_filter in (None, binding.principal)
            and wanted.host_filter in (None, binding.host)
            and wanted.operation in (_ANY, binding.operation)
            and wanted.permission_type in (_ANY, binding.permission_type)
        ]


def _names(wanted: Any, one: Acl) -> bool:
    name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
    if pattern == _MATCH and name is not None:
        if one.pattern_type == _PREFIXED:
            return bool(name.startswith(one.resource_name))
        return one.resource_name in (name, "*")
    return pattern in (_ANY, _MATCH, one.pattern_type) and name in (None, one.resource_name)


def _entry(one: Acl) -> Answer:
    return {
        "principal": one.principal,
        "host": one.host,
        "operation": one.operation,
        "permission_type": one.permission_type,
    }
