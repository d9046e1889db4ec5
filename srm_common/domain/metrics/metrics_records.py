"""The report of a run as records of the topic with raw metrics, each below a broker's default limit of 1 MB.

The first part has the run and what is said of the flow; partitions, groups and decisions are rows that are spread over
as many parts as they need. Each part can be read by itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from srm_common.domain.document import reading
from srm_common.domain.monitoring.run_report import RunReport
from srm_common.errors import CorruptRecord

_VERSION = 1
#: Before compression; brokers measure after it, and take 1,048,588 bytes by default.
MAX_PART_BYTES = 900_000
#: Reports of which not all parts have come yet. A run writes one, its repetitions may write more at a time.
_PENDING = 8


def report_parts(report: RunReport, max_bytes: int = MAX_PART_BYTES) -> list[bytes]:
    """JSON texts, in their order. A plan or list of filters that fills a part by itself is left out."""
    head = report.to_json()
    rows: list[tuple[str, Any]] = []
    if report.run is not None:
        rows += [("partitions", row) for row in head["run"]["partitions"]]
        head["run"]["partitions"] = []
    rows += [("groups", row) for row in head["groups"]]
    head["groups"] = []
    if report.topic_groups is not None:
        rows += [("topic_groups", row) for row in head["topic_groups"]]
        head["topic_groups"] = []
    if report.decisions is not None:
        rows += [("decisions", row) for row in head["decisions"].get("decisions", ())]
        head["decisions"] = {**head["decisions"], "decisions": []}
    for large in ("plan", "filters"):
        if len(_text(head[large])) > max_bytes // 3:
            head[large] = None
    columns = {"partitions": head["run"]["columns"] if head["run"] else [], "groups": head["group_columns"]}
    parts: list[dict[str, Any]] = [{"report": head}]
    used, filled = len(_text(head)), False
    for kind, row in rows:
        length = len(_text(row)) + 1
        if filled and used + length > max_bytes:
            parts.append({"columns": columns})
            used = len(_text(columns))
        parts[-1].setdefault(kind, []).append(row)
        used, filled = used + length, True
    about = {"version": _VERSION, "flow": report.flow, "run_id": report.run_id, "reported_ms": report.reported_ms}
    return [_text({**about, "part": number, "parts": len(parts), **part}) for number, part in enumerate(parts)]


class ReportAssembly:
    """Puts reports together from their parts, as they come."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str, int], dict[int, Mapping[str, Any]]] = {}

    def take(self, value: bytes) -> RunReport | None:
        """One part; the report when it was the last one that was missing.

        Raises:
            CorruptRecord: it is no part, or the report that it makes complete cannot be read.
        """
        try:
            part = json.loads(value)
        except ValueError as error:
            raise CorruptRecord(f"a record of raw metrics cannot be read: {error!r}") from error
        with reading(part, "a record of raw metrics", _VERSION):
            place = (str(part["flow"]), str(part["run_id"]), int(part["reported_ms"]))
            known = self._pending.setdefault(place, {})
            known[int(part["part"])] = part
            if len(known) == int(part["parts"]):
                del self._pending[place]
                return _joined([known[number] for number in range(len(known))])
        if len(self._pending) > _PENDING:
            # Its writer died between two parts.
            del self._pending[next(iter(self._pending))]
        return None


def _joined(parts: list[Mapping[str, Any]]) -> RunReport:
    document = dict(parts[0]["report"])
    kinds = ("partitions", "groups", "topic_groups", "decisions")
    rows = {kind: [row for part in parts for row in part.get(kind, ())] for kind in kinds}
    if document["run"] is not None:
        document["run"] = {**document["run"], "partitions": rows["partitions"]}
    document["groups"] = rows["groups"]
    if document.get("topic_groups") is not None:
        document["topic_groups"] = rows["topic_groups"]
    if document["decisions"] is not None:
        document["decisions"] = {**document["decisions"], "decisions": rows["decisions"]}
    return RunReport.from_json(document)


def _text(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
