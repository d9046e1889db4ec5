"""``kafka-acls.sh --add`` commands, as documentation shows them, carried out by an AdminClient."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from srm_common.testing import LocalKafka

DOCS = Path(__file__).parents[2] / "docs"
_ACLS = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP, "transactional_id": ResourceType.TRANSACTIONAL_ID}


def documented(page: str, variable: str) -> list[str]:
    """The commands of a page of docs/ for the cluster whose address is in ``variable``."""
    return re.findall(rf"^kafka-acls\.sh --bootstrap-server \${variable} .*$", (DOCS / page).read_text(), re.M)


def bindings_of(command: str) -> list[AclBinding]:
    """What a command would create."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal")
    parser.add_argument("--deny-principal")
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal", choices=["literal", "prefixed"])
    parser.add_argument("--cluster", action="store_true")
    for kind in _ACLS:
        parser.add_argument(f"--{kind.replace('_', '-')}", action="append", default=[])
    given = parser.parse_args(shlex.split(command)[1:])
    resources = [(kind, name) for option, kind in _ACLS.items() for name in getattr(given, option)]
    if given.cluster:
        resources.append((ResourceType.BROKER, "kafka-cluster"))  # librdkafka's word for the cluster
    return [
        AclBinding(
            kind,
            name,
            ResourcePatternType[given.resource_pattern_type.upper()],
            given.allow_principal or given.deny_principal,
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", operation).upper()],
            AclPermissionType.ALLOW if given.allow_principal else AclPermissionType.DENY,
        )
        for kind, name in resources
        for operation in given.operation
    ]


def grant(kafka: LocalKafka, *commands: str) -> list[AclBinding]:
    """Create what the commands say, and return it."""
    return create(kafka, [binding for command in commands for binding in bindings_of(command)])


def create(kafka: LocalKafka, bindings: list[AclBinding]) -> list[AclBinding]:
    """Create bindings, and return them."""
    for future in kafka.admin().create_acls(bindings).values():
        future.result(60)
    return bindings


def revoke(kafka: LocalKafka, command: str) -> None:
    """Delete what :func:`grant` created for the command."""
    from confluent_kafka.admin import AclBindingFilter

    filters = [
        AclBindingFilter(
            binding.restype,
            binding.name,
            binding.resource_pattern_type,
            binding.principal,
            binding.host,
            binding.operation,
            binding.permission_type,
        )
        for binding in grant(kafka, command)
    ]
    for future in kafka.admin().delete_acls(filters).values():
        future.result(60)
