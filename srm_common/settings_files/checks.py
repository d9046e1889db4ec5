"""All findings about a configuration: its faults, its keys, and conflicts between its flows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from srm_common.domain.cluster import ClusterSettings
from srm_common.domain.flow import FlowName, FlowSettings
from srm_common.domain.settings.layers import Aliases
from srm_common.domain.settings.table import BY_NAME
from srm_common.settings_files.clusters import CONNECTION
from srm_common.settings_files.configuration import Configuration
from srm_common.settings_files.connections.connection_layers import ADDRESS
from srm_common.settings_files.findings import Finding, FindingCode, Severity, addresses, common_addresses
from srm_common.settings_files.key_findings import key_findings
from srm_common.settings_files.transform_findings import pointless_steps
from srm_common.settings_files.written_flows import TARGETS

_ORDER = list(Severity)


def findings(configuration: Configuration) -> tuple[Finding, ...]:
    """All faults, warnings and notes, the worst first. Connects to nothing."""
    found = [*_faults(configuration), *_keys(configuration), *_flows(configuration), *_clusters(configuration)]
    return tuple(sorted(dict.fromkeys(found), key=lambda finding: _ORDER.index(finding.severity)))


def notices(configuration: Configuration, only: FlowName | None = None) -> dict[FlowName, tuple[Finding, ...]]:
    """The warnings about keys that concern each flow, or one: its own, those of its clusters and those of all flows."""
    aliases = Aliases(configuration.layers.aliases)
    # By flow, or by the aliases that the key begins with: none, or several where one begins like the other.
    of: dict[FlowName | frozenset[str], list[tuple[int, Finding]]] = {}
    warnings = (finding for finding in _keys(configuration, only) if finding.severity is Severity.WARNING)
    for number, finding in enumerate(warnings):
        about = frozenset(aliases.all_before(finding.key)) if finding.flow is None else finding.flow
        of.setdefault(about, []).append((number, finding))

    def concerning(flow: FlowName) -> tuple[Finding, ...]:
        ends = (flow.source, flow.target)
        abouts = (flow, frozenset[str](), frozenset(ends[:1]), frozenset(ends[1:]), frozenset(ends))
        numbered = itertools.chain.from_iterable(of.get(about, ()) for about in abouts)
        return tuple(finding for _, finding in sorted(numbered, key=lambda one: one[0]))

    flows = configuration.flows if only is None else [only] if only in configuration.flows else []
    return {flow: concerning(flow) for flow in flows}


def _faults(configuration: Configuration) -> Iterator[Finding]:
    for flow, error in configuration.faults.items():
        for single in error.parts or (error,):
            yield Finding.fault(single, flow)
    used = {alias for flow in configuration.faults for alias in (flow.source, flow.target)}
    for alias, error in configuration.cluster_faults.items():
        if alias not in used:
            finding = Finding.fault(error)
            yield Finding(
                Severity.WARNING, FindingCode.INVALID, f"{error.reason} (no flow uses cluster {alias})", finding.place
            )


def _keys(configuration: Configuration, only: FlowName | None = None) -> list[Finding]:
    """Of all flows; with ``only``, those that concern other flows may be missing."""
    flows = [*configuration.names, *configuration.elsewhere]
    found = key_findings(configuration.layers, configuration.entries, flows)
    found += [
        Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, reason)
        for entry, reason in (configuration.unused if only is None else configuration.unused_of(only)).items()
    ]
    for name in configuration.names if only is None else [only]:
        settings = configuration.flows.get(name)
        if settings is None:
            continue
        if not settings.emit_offset_syncs:
            found += _useless_offset_syncs(configuration, name)
        if settings.exactly_once:
            found += _useless_isolation(configuration, name)
        if not (settings.has_transforms or settings.maps_schema_ids):
            found += _useless_error_handling(configuration, name)
        elif settings.errors_tolerance == "none":
            found += _useless_dead_letters(configuration, name)
        found += pointless_steps(configuration.layers, settings)
        if settings.sync_group_offsets and not settings.emit_checkpoints:
            found.append(_useless_group_sync(configuration, name))
    return found


def _useless_offset_syncs(configuration: Configuration, flow: FlowName) -> Iterator[Finding]:
    """MirrorMaker 2 refuses such a flow; nothing is wrong with it here."""
    off = configuration.layers.find(BY_NAME["emit.offset-syncs.enabled"], flow).entry
    assert off is not None
    for key in ("offset-syncs.topic.location", "offset-syncs.topic.replication.factor", "offset.lag.max"):
        entry = configuration.layers.find(BY_NAME[key], flow).entry
        if entry is not None:
            yield Finding.about(
                Severity.WARNING,
                FindingCode.NO_EFFECT,
                entry,
                f"has no effect for {flow}, as {off.place} switches it off",
                flow,
            )


_DEAD_LETTERS = (
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.replication.factor",
    "errors.deadletterqueue.context.headers.enable",
)


def _useless_error_handling(configuration: Configuration, flow: FlowName) -> Iterator[Finding]:
    """Records that are copied unopened cannot fail one by one."""
    for name in ("errors.tolerance", "errors.log.enable", *_DEAD_LETTERS):
        key = BY_NAME[name]
        entry = configuration.layers.find(key, flow).entry
        if entry is not None:
            severity = Severity.NOTE if entry.value.strip().lower() == key.default else Severity.WARNING
            yield Finding.about(
                severity, FindingCode.NO_EFFECT, entry, f"has no effect for {flow}, which has no transforms", flow
            )


def _useless_dead_letters(configuration: Configuration, flow: FlowName) -> Iterator[Finding]:
    for name in _DEAD_LETTERS:
        entry = configuration.layers.find(BY_NAME[name], flow).entry
        if entry is not None:
            reason = (
                f"has no effect for {flow} without errors.tolerance = all: the first failed record stops its partition"
            )
            yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, reason, flow)


def _useless_isolation(configuration: Configuration, flow: FlowName) -> Iterator[Finding]:
    """An exactly-once flow copies only committed records."""
    entry = configuration.layers.find(BY_NAME["consumer.isolation.level"], flow).entry
    if entry is not None and entry.value.strip().lower() == "read_uncommitted":
        reason = (
            f"has no effect for {flow}: aborted records are never copied where exactly.once.source.support is enabled"
        )
        yield Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, entry, reason, flow)


def _useless_group_sync(configuration: Configuration, flow: FlowName) -> Finding:
    """MirrorMaker 2 refuses such a flow, too."""
    on = configuration.layers.find(BY_NAME["sync.group.offsets.enabled"], flow).entry
    by_interval = configuration.flows[flow].emit_checkpoints_interval_seconds < 0
    key = BY_NAME["emit.checkpoints.interval.seconds" if by_interval else "emit.checkpoints.enabled"]
    off = configuration.layers.find(key, flow).entry
    assert on is not None
    assert off is not None
    reason = f"has no effect for {flow}, as offsets are committed by checkpoints, and {off.place} switches these off"
    return Finding.about(Severity.WARNING, FindingCode.NO_EFFECT, on, reason, flow)


def _flows(configuration: Configuration) -> Iterator[Finding]:
    enabled = configuration.enabled_flows
    if not enabled and not configuration.faults:
        yield Finding(
            Severity.WARNING, FindingCode.NO_FLOW, "no flow is enabled; add '<source>-><target>.enabled = true'"
        )
    yield from _mixed_policies(configuration)
    targets = list(dict.fromkeys(flow.name.target for flow in enabled))
    if len(targets) > 1 and TARGETS not in configuration.layers.top:
        # One installation cannot be next to all of them: what it reads may be far away, what it writes should not be.
        yield Finding(
            Severity.WARNING,
            FindingCode.PUSH_MODE,
            f"this installation writes to {len(targets)} clusters ({', '.join(targets)}), so to some of them from afar "
            f"(push mode); preferably, each target has an installation next to it, with the same file and "
            f"'{TARGETS} = <its target>' (pull mode)",
        )
    for flow in configuration.elsewhere:
        entry = configuration.layers.top[TARGETS]
        yield Finding(
            Severity.NOTE,
            FindingCode.OTHER_INSTALLATION,
            f"leaves {flow} to another installation",
            entry.place,
            entry.written,
            flow,
        )


def _mixed_policies(configuration: Configuration) -> Iterator[Finding]:
    """Names are right over several hops only where each hop names by the same rules."""
    onward: dict[str, list[FlowSettings]] = {}
    for flow in configuration.enabled_flows:
        onward.setdefault(flow.name.source, []).append(flow)
    for first in configuration.enabled_flows:
        for second in onward.get(first.name.target, ()):
            if _naming(first) == _naming(second):
                continue
            key = "replication.policy.separator" if type(first.policy) is type(second.policy) else _POLICY
            entry = (
                configuration.layers.find(BY_NAME[key], second.name).entry
                or configuration.layers.find(BY_NAME[key], first.name).entry
            )
            yield Finding(
                Severity.WARNING,
                FindingCode.MIXED_POLICIES,
                f"{first.name} and {second.name} form a chain and name topics differently ({_words(first)}, then "
                f"{_words(second)}); use one policy for the whole chain",
                entry.place if entry else "",
                "",
                second.name,
            )


_POLICY = "replication.policy.class"


def _naming(flow: FlowSettings) -> tuple[str, str]:
    return type(flow.policy).__qualname__, str(getattr(flow.policy, "separator", ""))


def _words(flow: FlowSettings) -> str:
    name, separator = _naming(flow)
    return f"{name} with '{separator}'" if separator not in ("", ".") else name


def _pairs_with_common_addresses(configuration: Configuration) -> list[tuple[ClusterSettings, ClusterSettings]]:
    """In the order of ``clusters``."""
    clusters = list(configuration.clusters.values())
    by_address: dict[str, list[int]] = {}
    for number, cluster in enumerate(clusters):
        for address in addresses(cluster):
            by_address.setdefault(address, []).append(number)
    pairs = {pair for numbers in by_address.values() for pair in itertools.combinations(numbers, 2)}
    return [(clusters[one], clusters[other]) for one, other in sorted(pairs)]


def _clusters(configuration: Configuration) -> Iterator[Finding]:
    layers = configuration.layers
    flows = [*configuration.names, *configuration.elsewhere]
    used = {alias for flow in flows for alias in (flow.source, flow.target)}
    for one, other in _pairs_with_common_addresses(configuration):
        ways = (FlowName(one.alias, other.alias), FlowName(other.alias, one.alias))
        common = common_addresses(one, other)
        if not any(flow in configuration.faults for flow in ways):
            entry = layers.clusters[other.alias].get(ADDRESS)
            yield Finding(
                Severity.WARNING,
                FindingCode.SAME_CLUSTER,
                f"'{one.alias}' and '{other.alias}' are the same cluster, as both have {common[0]}; a cluster with two "
                f"aliases is copied twice, and loops through it are not detected: keep one alias",
                entry.place if entry else "",
            )
    for alias in layers.aliases:
        if alias not in used:
            yield Finding(
                Severity.NOTE,
                FindingCode.UNUSED_CLUSTER,
                f"names '{alias}', which no flow uses",
                layers.top["clusters"].place,
                "clusters",
            )
        own, named = layers.clusters[alias].get(ADDRESS), layers.clusters[alias].get(CONNECTION)
        if own is not None and named is not None:
            yield Finding.about(
                Severity.NOTE,
                FindingCode.TWO_ADDRESSES,
                own,
                f"takes precedence over the address of {named.written} in {named.place}",
            )
