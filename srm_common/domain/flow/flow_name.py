"""Names of flows: the two clusters, in the direction of the data."""

from __future__ import annotations

from dataclasses import dataclass

from srm_common.errors import ConfigError

ARROW = "->"


@dataclass(frozen=True, order=True, slots=True)
class FlowName:
    """``source->target``."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}{ARROW}{self.target}"

    @classmethod
    def parse(cls, text: str | FlowName) -> FlowName:
        """Read ``a->b``; spaces around the arrow are allowed. Raises :class:`ConfigError`."""
        if isinstance(text, FlowName):
            return text
        source, arrow, target = (part.strip() for part in text.partition(ARROW))
        if not arrow or not source or not target or ARROW in target:
            raise ConfigError(f"'{text}' is not a flow; write it as 'source{ARROW}target'")
        return cls(source, target)

    @property
    def dag_id(self) -> str:
        return f"srm.{self.source}.{self.target}"
