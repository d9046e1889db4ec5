"""The arrows between packages, what the domain may know, and what parsing a DAG file may cost."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from srm_common.replication.spark.worker_archive import NEEDED

ROOT = Path(__file__).parents[2]
PRODUCT = sorted((ROOT / "srm_common").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
#: Longer files are searched, not read.
MOST_LINES = 400
#: The fake cluster has most: one file for each kind of request that a broker answers.
MOST_FILES = 20
HEAVY = {
    *("confluent_kafka", "kafka", "pyspark", "pandas", "pyarrow", "numpy", "cramjam", "crc32c", "cryptography"),
    "sqlalchemy",
}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def line_count(path: Path) -> int:
    return len(path.read_text().splitlines())


def modules(package: str) -> list[str]:
    folder = ROOT / package.replace(".", "/")
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for path in sorted(folder.rglob("*.py"))
        if path.name not in ("__init__.py", "__main__.py")
    ]


def loaded_after(statements: str) -> set[str]:
    """Top-level modules in a fresh interpreter after the statements."""
    script = f"{statements}\nimport sys; print(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def test_import_rules_hold() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_drawings_are_those_of_the_code() -> None:
    command = [sys.executable, "scripts/architecture.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr


def test_no_two_modules_import_each_other() -> None:
    """Neither within functions nor for the type checker alone, which import contracts and the interpreter let pass."""
    product = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PRODUCT}
    named = {name.removesuffix(".__init__"): path for name, path in product.items()}
    arrows = {
        name: {found if found in named else found.rpartition(".")[0] for found in imports(path)} & named.keys()
        for name, path in named.items()
    }
    assert sum(map(len, arrows.values())) > 1000
    TopologicalSorter(arrows).prepare()  # raises CycleError, which names the circle


def test_use_cases_get_the_adapters_of_a_cluster_from_what_is_open() -> None:
    """Each that is made elsewhere would have connections of its own."""
    adapters = {"ClusterAdmin", "AclAdmin", "GroupReader", "GroupCommitter", "GroupWatch", "StateReader", "StateWriter"}
    adapters |= {"TopicRegistry", "SegmentLog", "SchemaRegistry", "ClusterLink", "SharedAdmin", "LinkPool"}
    makers = {
        (path.name, node.func.id)
        for floor in ("usecases", "rest", "cli", "airflow_bridge")
        for path in (ROOT / "srm_common" / floor).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in adapters
    }
    assert ("open_cluster.py", "StateReader") in makers
    assert {maker for maker in makers if maker[0] != "open_cluster.py"} == set()


@pytest.mark.parametrize("path", sorted((ROOT / "srm_common/domain").rglob("*.py")), ids=lambda path: path.stem)
def test_the_domain_knows_the_standard_library_only(path: Path) -> None:
    strangers = {
        name
        for name in imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith(("srm_common.domain", "srm_common.errors"))
    }
    assert not strangers


def test_the_domain_opens_nothing() -> None:
    doors = {"socket", "ssl", "subprocess", "urllib", "http", "asyncio", "sqlite3"}
    found = {
        (path.name, name)
        for path in (ROOT / "srm_common/domain").rglob("*.py")
        for name in imports(path)
        # Taking an address apart opens nothing.
        if name.split(".")[0] in doors and not name.startswith("urllib.parse.")
    }
    assert not found


def test_importing_the_domain_is_light() -> None:
    statements = "\n".join(f"import {name}" for name in modules("srm_common.domain"))
    assert not loaded_after(statements) & HEAVY


def test_commands_and_the_api_load_without_what_only_transforms_and_spark_need() -> None:
    """``pip install 'srm-kafka[serve]'`` brings none of it."""
    blocked = ("numpy", "pyarrow", "pandas", "numba", "fastavro", "pyspark", "airflow", "gssapi")
    script = f"""
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
for name in {["srm_common.rest.app", *modules("srm_common.rest"), *modules("srm_common.cli")]}:
    importlib.import_module(name)
"""
    assert not loaded_after(script) & set(blocked)


def test_slots_need_only_what_the_worker_archive_brings() -> None:
    """A Spark worker may have nothing installed; of the Kafka clients only kafka-python is pure enough to be sent."""
    statements = "import srm_common.replication.spark.spark_pass, srm_common.replication.slots.slot"
    shipped = {re.split("[-.]", needed)[0].replace("-", "_") for needed in NEEDED}
    loaded = loaded_after(statements) & HEAVY
    assert not loaded - shipped
    assert "cryptography" not in loaded, "it takes longer than all others, and only keys need it"


def test_no_file_is_too_long_to_be_read_at_once() -> None:
    files = [*PRODUCT, *TESTS]
    assert Path(__file__) in files
    long = {path.relative_to(ROOT).as_posix(): lines for path in files if (lines := line_count(path)) > MOST_LINES}
    assert not long, "take a noun out of it, into a file of its own"


def test_no_folder_is_a_drawer() -> None:
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in PRODUCT if path.name != "__init__.py")
    full = {folder: count for folder, count in files.items() if count > MOST_FILES}
    assert not full, "split it into rooms, by what they are about, and write their order down in pyproject.toml"


def test_every_folder_is_in_the_architecture() -> None:
    named = set(re.findall(r"`(?:srm_common[./])?([a-z_0-9./]+)`", (ROOT / "ARCHITECTURE.md").read_text()))
    folders = {path.parent.relative_to(ROOT / "srm_common").as_posix() for path in PRODUCT} - {"."}
    assert not folders - named


@pytest.mark.parametrize("package", ["srm_common.cli", "srm_common.airflow_bridge", "srm_common.usecases"])
def test_packages_have_a_docstring(package: str) -> None:
    source = (ROOT / package.replace(".", "/") / "__init__.py").read_text()
    assert ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("name", ["utils", "helpers", "manager", "misc", "common"])
def test_no_module_is_a_drawer(name: str) -> None:
    assert not list((ROOT / "srm_common").rglob(f"*{name}.py"))
