"""A verification as one HTML file for the records: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from srm_common.domain.amount import moment
from srm_common.domain.verification.verification import Against, PartitionVerified, Verification

_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2em auto;max-width:75em;padding:0 1em}"
    "table{border-collapse:collapse;margin:1em 0;width:100%}"
    "th,td{border-bottom:1px solid #bbb;padding:.25em .6em;text-align:left;vertical-align:top}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}code{font-size:13px}"
)
_AGAINST = {Against.MAP: "the fingerprints in the offset map", Against.SOURCE: "the records of the source"}
_COLUMNS = (
    "Copy",
    "Partition",
    "Result",
    "Proved from",
    "Proved to",
    "Records",
    "Segments",
    "Fingerprint",
    "Log of the copy",
    "Not proved",
    "Compared",
    "Differences",
)


def verification_page(found: Verification) -> str:
    """The whole page. Every text is escaped: names of topics may hold anything."""
    evidence, scope = found.evidence, found.scope
    facts = [
        ("Flow", found.flow),
        ("Compared with", _AGAINST[found.against]),
        ("Part", "all" if scope.sample >= 1 else f"a sample of {scope.sample:.2%} of the segments"),
        ("Since", "the beginning" if scope.since_ms is None else moment(scope.since_ms)),
        ("Began", moment(found.started_ms)),
        ("Ended", moment(found.ended_ms)),
        ("Source cluster", evidence.source_cluster_id or "not recorded"),
        ("Target cluster", evidence.target_cluster_id),
        ("Version", evidence.version),
        ("Digest of the settings", evidence.configuration),
        ("Result", ", ".join(f"{count} {verdict}" for verdict, count in found.counts.items()) or "nothing to compare"),
    ]
    faults = "".join(f"<li>{escape(fault)}</li>" for fault in found.faults)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(found.flow)}: verification</title>'
        f"<style>{_STYLE}</style></head><body><h1>Verification of {escape(found.flow)}</h1>"
        f"<table>{''.join(f'<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in facts)}</table>"
        + (f"<h2>Faults</h2><ul>{faults}</ul>" if faults else "")
        + f"<h2>Partitions</h2>{_table(_COLUMNS, map(_cells, found.partitions))}"
        + f"<h2>Topics of the source</h2>{_ids('Topic', evidence.source_topic_ids)}"
        + f"<h2>Copies</h2>{_ids('Copy', evidence.topic_ids)}</body></html>\n"
    )


def _ids(what: str, ids: Mapping[str, str]) -> str:
    return _table((what, "Topic id"), sorted(ids.items()))


def _cells(one: PartitionVerified) -> Sequence[object]:
    findings = one.findings
    return (
        one.copy,
        one.partition,
        str(one.verdict),
        findings.proved_from if findings.proved_from >= 0 else "",
        findings.proved_to if findings.proved_to >= 0 else "",
        findings.proved,
        findings.segments,
        findings.fingerprint.text(),
        f"{one.log_start} to {one.log_end}" if one.log_end >= 0 else "",
        ", ".join(f"{records} {reason}" for reason, records in findings.not_proved.items()),
        moment(one.checked_ms),
        "; ".join([*([one.fault] if one.fault else []), *map(str, findings.differences)]),
    )


def _table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{escape(str(value))}</td>"
