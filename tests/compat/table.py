"""The table of docs/compatibility.md that ``make compat`` writes: a row for each environment, and when it was tried."""

from __future__ import annotations

from dataclasses import dataclass

from tests.compat.environment import ENVIRONMENTS, Environment
from tests.compat.trial import STEPS, Trial

BEGIN, END = "<!-- make compat writes from here -->", "<!-- to here -->"
COLUMNS = ("environment", "Python", "Airflow", "its Spark provider", "PySpark", "kafka-python", "confluent-kafka")
_PACKAGES = ("apache-airflow", "apache-airflow-providers-apache-spark", "pyspark", "kafka-python", "confluent-kafka")


@dataclass(frozen=True)
class Row:
    """Cells in the order of the columns: :data:`COLUMNS`, the steps, the day."""

    cells: tuple[str, ...]

    @classmethod
    def of(cls, environment: Environment, trial: Trial, day: str) -> Row:
        """What was found in an environment. A step that was not reached is a dash."""
        versions = [trial.versions.get(name, "") for name in _PACKAGES]
        verdicts = [_verdict(trial.verdicts.get(step, "-")) for step in STEPS]
        return cls((environment.name, environment.python, *versions, *verdicts, day))

    @classmethod
    def parse(cls, line: str) -> Row:
        return cls(tuple(cell.strip() for cell in line.strip().strip("|").split("|")))

    @property
    def name(self) -> str:
        return self.cells[0]

    @property
    def good(self) -> bool:
        """Whether all steps went well."""
        return all(cell == "good" for cell in self.cells[len(COLUMNS) : -1])

    def __str__(self) -> str:
        return f"| {' | '.join(self.cells)} |"


def _verdict(text: str | None) -> str:
    return "good" if text is None else text.replace("|", "/")


def rows(document: str) -> list[Row]:
    """Those of the document."""
    lines = document[document.index(BEGIN) : document.index(END)].splitlines()
    return [Row.parse(line) for line in lines[4:] if line.startswith("|")]


def with_row(document: str, row: Row) -> str:
    """The document with this row instead of the environment's last one. Rows of environments that are no more go."""
    kept = {one.name: one for one in rows(document)} | {row.name: row}
    columns = [*COLUMNS, *STEPS, "on"]
    table = [
        f"| {' | '.join(columns)} |",
        f"|{'---|' * len(columns)}",
        *(str(kept[environment.name]) for environment in ENVIRONMENTS if environment.name in kept),
    ]
    before, rest = document.split(BEGIN, 1)
    return f"{before}{BEGIN}\n\n" + "\n".join(table) + f"\n\n{END}" + rest.split(END, 1)[1]
