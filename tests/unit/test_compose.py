"""docker-compose.yaml: what ``docker compose config`` says where there is one, and what parsing tells everywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
SECRET_NAME = re.compile(r"(?i)password|secret|token|fernet|sql_alchemy_conn|api_key|private_key")
# Names that hold no secret although they sound so.
HARMLESS = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"}
HOW = "no Docker Compose 2; scripts/setup.sh --tests installs it where the distribution has it, or says how"
# Restart policies of what ends by itself.
ENDS = {"no", "on-failure:5"}
REFERENCE = re.compile(r"\$\{(\w+)(:?[-?])?([^}]*)\}")


def compose_command() -> list[str] | None:
    if shutil.which("docker") and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        version = subprocess.run(["docker-compose", "version", "--short"], capture_output=True, text=True)
        if version.stdout.strip().lstrip("v").split(".")[0] not in ("", "1"):  # 1 knows neither 'name' nor '--wait'
            return ["docker-compose"]
    return None


def example_environment() -> dict[str, str]:
    names = re.findall(r"^([A-Z_]+)=$", (ROOT / ".env.example").read_text(), re.MULTILINE)
    return {name: "x" * 24 for name in names}


def with_docker(folder: Path, answer: str) -> dict[str, str]:
    """An environment whose ``docker`` is this command: the machine's volumes do not matter then."""
    docker = folder / "bin/docker"
    docker.parent.mkdir()
    docker.write_text(f"#!/bin/sh\n{answer}\n")
    docker.chmod(0o755)
    return {"PATH": f"{docker.parent}:{os.environ['PATH']}"}


def is_one_shot(name: str) -> bool:
    return any(
        needs.get(name, {}).get("condition") == "service_completed_successfully"
        for needs in (service.get("depends_on", {}) for service in SERVICES.values())
    )


def test_compose_itself_accepts_the_file(tmp_path: Path) -> None:
    command = compose_command()
    if command is None:
        pytest.skip(HOW)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **example_environment()}
    done = subprocess.run(
        [*command, "-f", str(COMPOSE), "config"], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(SERVICES)


def test_compose_refuses_to_start_without_secrets(tmp_path: Path) -> None:
    command = compose_command()
    if command is None:
        pytest.skip(HOW)
    empty = tmp_path / "empty.env"
    empty.touch()
    done = subprocess.run(
        [*command, "--env-file", str(empty), "-f", str(COMPOSE), "config"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        timeout=60,
    )
    assert done.returncode != 0
    assert "run docker/make-env.sh" in done.stderr


def test_every_secret_comes_from_the_environment_and_is_required() -> None:
    secrets = [
        (service, key, str(value))
        for service, body in SERVICES.items()
        for key, value in body.get("environment", {}).items()
        if SECRET_NAME.search(key) and key not in HARMLESS
    ]
    assert len(secrets) > 10
    for service, key, value in secrets:
        kinds = [kind for _, kind, _ in REFERENCE.findall(value)]
        assert kinds, f"{service}: {key} is written out"
        assert set(kinds) == {":?"}, f"{service}: {key} may be empty"


def test_no_password_stands_in_a_url_or_command() -> None:
    assert not re.findall(r"://[^/\s:@]+:(?!\$\{)[^/\s@]+@", COMPOSE.read_text())


def test_the_example_names_every_required_variable_and_no_value() -> None:
    required = {name for name, kind, _ in REFERENCE.findall(COMPOSE.read_text()) if kind == ":?"}
    assert set(example_environment()) == required
    optional = {name for name, kind, _ in REFERENCE.findall(COMPOSE.read_text()) if kind == ":-"}
    optional |= {name for service in SERVICES.values() for name in service.get("build", {}).get("args", ())}
    assert optional == set(re.findall(r"^#([A-Z_]+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))


@pytest.mark.parametrize("name", SERVICES)
def test_ready_means_ready(name: str) -> None:
    """``up --wait`` waits for health checks, and for one-shots that somebody waits for."""
    service = SERVICES[name]
    if is_one_shot(name):
        assert service["restart"] in ENDS
        assert "healthcheck" not in service
    else:
        check = service["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries", "start_period"} <= set(check)


@pytest.mark.parametrize("name", SERVICES)
def test_dependencies_exist_and_their_conditions_can_come_true(name: str) -> None:
    for needed, how in SERVICES[name].get("depends_on", {}).items():
        assert needed in SERVICES
        if how["condition"] == "service_completed_successfully":
            assert SERVICES[needed]["restart"] in ENDS
        else:
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[needed]


def test_dependencies_have_no_circle() -> None:
    done: set[str] = set()
    while len(done) < len(SERVICES):
        free = {name for name, body in SERVICES.items() if set(body.get("depends_on", {})) <= done} - done
        assert free, f"circle among {set(SERVICES) - done}"
        done |= free


def test_every_file_that_is_named_exists() -> None:
    image_files = set()
    for service in SERVICES.values():
        for part in (*service.get("command", ()), *service.get("healthcheck", {}).get("test", ())):
            if part.startswith("/opt/srm/"):
                image_files.add(part.removeprefix("/opt/srm/"))
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), source
            else:
                assert source in DOCUMENT["volumes"]
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).is_file()
    dockerfile = (ROOT / "docker/Dockerfile").read_text()
    for path in image_files:
        assert (ROOT / path).is_file(), path
        assert path in dockerfile, f"{path} is not copied into the image"
        if path.endswith(".sh"):
            assert os.access(ROOT / path, os.X_OK), path


def test_the_image_is_built_from_files_that_exist() -> None:
    lines = (ROOT / "docker/Dockerfile").read_text().splitlines()
    copied = [
        part for line in lines if line.startswith("COPY ") and "--from" not in line for part in line.split()[1:-1]
    ]
    allowed = (ROOT / "docker/Dockerfile.dockerignore").read_text().splitlines()
    for path in copied:
        assert (ROOT / path).exists(), path
        assert f"!{path.split('/')[0]}" in allowed, f"{path} is hidden from the build"


def test_one_service_builds_the_image_and_the_others_wait_for_it() -> None:
    """Several builds of one name fail on a machine that has none of it; what is built here is in no registry."""
    builders = [name for name, service in SERVICES.items() if "build" in service]
    assert builders == ["spark-master"]
    image = SERVICES["spark-master"]["image"]
    sharing = {name for name, service in SERVICES.items() if service["image"] == image}
    assert len(sharing) > 1
    assert {SERVICES[name]["pull_policy"] for name in sharing - {*builders}} == {"never"}


def test_an_edit_of_the_flows_reaches_airflow() -> None:
    """Editors replace a file, and a mount of the file alone would go on showing the one that was replaced."""
    for name, service in SERVICES.items():
        mounted = [volume.split(":")[:2] for volume in service.get("volumes", ()) if volume.startswith(".")]
        assert not [source for source, _ in mounted if (ROOT / source).is_file()], name
        if read := service.get("environment", {}).get("SRM_CONFIG"):
            (source,) = [source for source, target in mounted if target == str(Path(read).parent)]
            assert (ROOT / source / Path(read).name).is_file()
            assert f"SRM_CONFIG={read}" in (ROOT / "docker/Dockerfile").read_text()


def test_a_checkout_that_only_its_owner_may_read_will_do(tmp_path: Path) -> None:
    """Files keep their modes in an image and in a mount, and containers run as users of their own."""
    instructions = (ROOT / "docker/Dockerfile").read_text().replace("\\\n", " ")
    copies, runs = (re.findall(rf"^{word} (?!--from)(.*)$", instructions, re.MULTILINE) for word in ("COPY", "RUN"))
    last = instructions.index("USER ")
    assert f"RUN {runs[-1]}" in instructions[:last]
    readable = re.search(r"chmod -R a\+rX ([^&]*)", runs[-1])
    assert readable
    # The wheel is built, and installed, by root.
    run_by_others = {
        copy.split()[-1].rstrip("/") for copy in copies if copy.split()[0].split("/")[0] in {"dags", "docker"}
    }
    assert set(readable[1].split()) == run_by_others == {"dags", "docker"}
    assert all(":ro,z" in one for body in SERVICES.values() for one in body.get("volumes", ()) if one.startswith("."))

    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    shutil.copy(ROOT / ".env.example", tmp_path)
    flows = tmp_path / "docker/flows"
    flows.chmod(0o700)
    (flows / "srm.properties").chmod(0o600)
    environment = with_docker(tmp_path, "false")
    subprocess.run([tmp_path / "docker/make-env.sh"], check=True, capture_output=True, env=environment)
    assert flows.stat().st_mode & 0o777 == 0o755
    assert (flows / "srm.properties").stat().st_mode & 0o777 == 0o644


def test_the_metrics_stores_database_is_made_at_each_start() -> None:
    """What the server's image runs for an empty volume is never run again if the first start was interrupted."""
    assert not [one for one in SERVICES["postgres"]["volumes"] if "initdb" in one]
    assert SERVICES["airflow-init"]["command"] == ["/opt/srm/docker/init.sh"]
    assert re.findall(r"^(?:exec )?(?!set|#)(.+)$", (ROOT / "docker/init.sh").read_text(), re.MULTILINE) == [
        "python /opt/srm/docker/database.py",
        "airflow db migrate",
    ]


def test_the_first_start_does_not_meet_the_server_that_initializes_the_volume() -> None:
    """It listens at its socket alone. Airflow's migration does not wait for a server, and five services wait for it."""
    check = SERVICES["postgres"]["healthcheck"]["test"]
    assert check[check.index("--host") + 1] == "127.0.0.1"
    assert SERVICES["airflow-init"]["restart"] == "on-failure:5"


def test_airflows_own_api_is_reached_without_a_proxy() -> None:
    """Docker gives its client's proxies to containers; Airflow's workers ask the API server by this address."""
    for name in (name for name in SERVICES if name.startswith("airflow-")):
        environment = SERVICES[name]["environment"]
        host = re.sub(r"^http://|:\d+/.*$", "", environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"])
        assert host in SERVICES
        for variable in ("NO_PROXY", "no_proxy"):
            assert host in environment[variable].split(",")


def test_the_image_has_what_any_flow_needs() -> None:
    (extras,) = re.findall(r'"\$wheel\[([\w,]+)\]"', (ROOT / "docker/Dockerfile").read_text())
    assert set(extras.split(",")) == {"airflow", "spark", "transforms", "postgres"}


def test_every_stage_of_the_image_may_use_a_mirror() -> None:
    stages = re.split(r"^FROM ", (ROOT / "docker/Dockerfile").read_text(), flags=re.MULTILINE)[1:]
    assert all(("pip install" in stage) == ("ARG PIP_INDEX_URL" in stage) for stage in stages)
    assert SERVICES["spark-master"]["build"]["args"] == ["PIP_INDEX_URL"]


def test_published_ports_are_this_machine_alone_and_differ() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:${") for port in ports)
    assert len({REFERENCE.findall(port)[0][0] for port in ports}) == len(ports)
    assert len({REFERENCE.findall(port)[0][2] for port in ports}) == len(ports)


@pytest.mark.parametrize("name", ["kafka-east", "kafka-west"])
def test_brokers_name_the_port_that_is_published(name: str) -> None:
    """Clients on this machine go by what brokers advertise."""
    (published,) = SERVICES[name]["ports"]
    port = published.removeprefix("127.0.0.1:").removesuffix(":9094")
    assert SERVICES[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"].endswith(f"EXTERNAL://localhost:{port}")


def test_clusters_have_identities_of_their_own() -> None:
    identities = {SERVICES[name]["environment"]["CLUSTER_ID"] for name in ("kafka-east", "kafka-west")}
    assert len(identities) == 2


def test_made_secrets_fill_every_name_and_are_never_overwritten(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    shutil.copy(ROOT / ".env.example", tmp_path)
    environment = with_docker(tmp_path, "false")
    subprocess.run([tmp_path / "docker/make-env.sh"], check=True, capture_output=True, env=environment)
    written = (tmp_path / ".env").read_text()
    values = dict(re.findall(r"^([A-Z_]+)=(.+)$", written, re.MULTILINE))
    assert set(values) == set(example_environment())
    assert len(set(values.values())) == len(values)
    assert len(values["AIRFLOW_FERNET_KEY"]) == 44
    assert len(values["AIRFLOW_JWT_SECRET"]) >= 64, "of HS512"
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0
    assert subprocess.run([tmp_path / "docker/make-env.sh"], capture_output=True, env=environment).returncode == 1
    assert (tmp_path / ".env").read_text() == written


def test_no_secrets_are_made_for_a_database_that_has_others(tmp_path: Path) -> None:
    """The volume of another clone, or of a former .env: PostgreSQL's image does not look at its password again."""
    shutil.copytree(ROOT / "docker", tmp_path / "docker")
    shutil.copy(ROOT / ".env.example", tmp_path)
    environment = with_docker(tmp_path, '[ "$*" = "volume inspect srm_postgres" ]')
    refused = subprocess.run([tmp_path / "docker/make-env.sh"], capture_output=True, text=True, env=environment)
    assert refused.returncode == 1
    assert "the volume srm_postgres belongs to another .env" in refused.stderr
    assert not (tmp_path / ".env").exists()

    subprocess.run(
        [tmp_path / "docker/make-env.sh"],
        check=True,
        capture_output=True,
        env={**environment, "COMPOSE_PROJECT_NAME": "second"},
    )
    assert "\nCOMPOSE_PROJECT_NAME=second\n" in (tmp_path / ".env").read_text()
