"""What is worth saying about a configuration: faults, warnings and notes, each one sentence with its place."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from srm_common.domain.flow import FlowName
from srm_common.domain.settings.layers import Entry
from srm_common.errors import ConfigError


class Severity(StrEnum):
    """A fault stops a flow or everything; a warning is probably not what was meant; a note explains."""

    FAULT = "fault"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence. ``flow`` is None where it is not about one flow; ``key`` is empty where it is about no key."""

    severity: Severity
    text: str
    place: str = ""
    key: str = ""
    flow: FlowName | None = None

    @classmethod
    def about(cls, severity: Severity, entry: Entry, text: str, flow: FlowName | None = None) -> Finding:
        return cls(severity, text, entry.place, entry.written, flow)

    @classmethod
    def fault(cls, error: ConfigError, flow: FlowName | None = None) -> Finding:
        place = "" if error.file is None else error.file if error.line is None else f"{error.file}:{error.line}"
        return cls(Severity.FAULT, error.reason, place, "", flow)

    def __str__(self) -> str:
        sentence = f"{self.key} {self.text}" if self.key else self.text
        return f"{self.place}: {sentence}" if self.place else sentence

    def to_json(self) -> dict[str, str | None]:
        return {
            "severity": self.severity.value,
            "place": self.place or None,
            "key": self.key or None,
            "flow": str(self.flow) if self.flow else None,
            "text": self.text,
        }
