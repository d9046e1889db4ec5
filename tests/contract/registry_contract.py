"""Schema registries, as our client sees them: what all have, and what those without mode IMPORT do instead."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Protocol

import pytest

from srm_common.domain.cluster import ClusterSettings, RegistrySettings
from srm_common.domain.schemas.schemas import Reference, RegistryView, SchemaVersion
from srm_common.errors import RegistryError
from srm_common.schema_registry.registry import SchemaRegistry

LOGIN = ("srm", "geheim")
PROTOBUF = 'syntax = "proto3";\nmessage Order { int32 x = 1; }\n'


class Server(Protocol):
    """What LocalRegistry and LocalKarapace have in common."""

    @property
    def url(self) -> str: ...


def client(server: Server, user: str | None = None, password: str | None = None) -> SchemaRegistry:
    cluster = ClusterSettings.plaintext("b", "localhost:9092")
    login = RegistrySettings((server.url,), user=user, password=password)
    return SchemaRegistry(replace(cluster, schema_registry=login), timeout_seconds=60)


def record(name: str, *fields: str) -> str:
    """An Avro schema with spaces and an order of keys that registries may change."""
    listed = [{"name": field, "type": "int"} for field in fields]
    return json.dumps({"type": "record", "name": name.replace("-", "_"), "fields": listed}, indent=1)


def own(view: RegistryView, name: str) -> dict[tuple[str, int], SchemaVersion]:
    """Of this test, by the subject's name without its beginning and the version."""
    return {
        (subject.replace(name, ""), version): one for (subject, version), one in view.schemas.items() if name in subject
    }


class RegistryContract:
    def test_schemas_are_listed_as_they_were_registered(self, server: Server, name: str) -> None:
        avro = record(f"{name}_Order", "a")
        with client(server) as registry:
            number = registry.add(f"{name}-value", "AVRO", avro)
            texts = {"json": ("JSON", f'{{"type": "object", "title": "{name}"}}'), "proto": ("PROTOBUF", PROTOBUF)}
            others = {subject: registry.add(f"{name}-{subject}", *one) for subject, one in texts.items()}
            versions = own(registry.view(), name)
            assert registry.by_id(number) is not None
        assert {place: (one.id, one.schema_type) for place, one in versions.items()} == {
            ("-value", 1): (number, "AVRO"),
            ("-json", 1): (others["json"], "JSON"),
            ("-proto", 1): (others["proto"], "PROTOBUF"),
        }
        # However the registry lays it out, it is the same schema to us.
        sent = SchemaVersion(f"{name}-value", 1, number, avro)
        assert versions["-value", 1].fingerprint == sent.fingerprint
        assert json.loads(versions["-value", 1].schema) == json.loads(avro)
        assert versions["-value", 1].references == ()

    def test_the_same_schema_has_the_same_id_in_every_subject_and_no_second_version(
        self, server: Server, name: str
    ) -> None:
        text = record(f"{name}_Order", "a")
        with client(server) as registry:
            numbers = [registry.add(f"{name}-{subject}", "AVRO", text) for subject in ("x", "y", "x")]
            numbers.append(registry.add(f"{name}-x", "AVRO", json.dumps(json.loads(text))))
            assert len(set(numbers)) == 1
            assert set(own(registry.view(), name)) == {("-x", 1), ("-y", 1)}
            assert registry.add(f"{name}-z", "AVRO", record(f"{name}_Order", "b")) not in numbers

    def test_soft_deleted_versions_stay_for_those_who_ask_for_them(self, server: Server, name: str) -> None:
        text = record(f"{name}_Order", "a")
        subject = f"{name}-value"
        with client(server) as registry:
            number = registry.add(subject, "AVRO", text)
            registry.delete_version(subject, 1)
            registry.delete_version(subject, 1)
            assert own(registry.view(), name)["-value", 1].deleted
            found = registry.version(subject, 1)
            assert found is not None
            assert json.loads(found["schema"]) == json.loads(text)
            by_id = registry.by_id(number)
            assert by_id is not None
            assert json.loads(by_id["schema"]) == json.loads(text)
            assert registry.add(subject, "AVRO", text) == number
            assert [
                (version, one.id, one.deleted) for (_, version), one in sorted(own(registry.view(), name).items())
            ] == [
                (1, number, True),
                (2, number, False),
            ]

    def test_references_are_kept_and_hold_what_they_refer_to(self, server: Server, name: str) -> None:
        inner, outer = f"{name}-inner", f"{name}-outer"
        named = name.replace("-", "_")
        text = json.dumps(
            {"type": "record", "name": f"{named}_O", "fields": [{"name": "i", "type": f"{named}_I"}]}, indent=1
        )
        with client(server) as registry:
            registry.add(inner, "AVRO", record(f"{name}_I", "a"))
            references = (Reference(f"{named}_I", inner, 1),)
            number = registry.add(outer, "AVRO", text, references)
            version = own(registry.view(), name)["-outer", 1]
            assert version.references == references
            assert registry.schema_version(outer, 1) == version
            assert registry.lookup(SchemaVersion(outer, 9, 9, text, references=references)) == (number, 1)
            with pytest.raises(RegistryError) as caught:
                registry.delete_version(inner, 1)
            assert (caught.value.status, caught.value.code) == (422, 42206)
            with pytest.raises(RegistryError) as caught:
                registry.add(f"{name}-bad", "AVRO", text, (Reference(f"{named}_I", f"{name}-none", 1),))
            assert (caught.value.status, caught.value.code) == (422, 42201)

    def test_a_schema_is_found_by_what_it_says_and_by_its_id(self, server: Server, name: str) -> None:
        text = record(f"{name}_Order", "a")
        asked = SchemaVersion(name, 7, 7, json.dumps(json.loads(text)))
        with client(server) as registry:
            assert registry.lookup(asked) is None
            number = registry.add(name, "AVRO", text)
            registry.add(name, "AVRO", record(f"{name}_Order"))
            registry.add(f"{name}-b", "AVRO", text)
            assert registry.lookup(asked) == (number, 1)
            assert registry.lookup(replace(asked, schema=record(f"{name}_Other"))) is None
            assert registry.places_of(number) == [(name, 1), (f"{name}-b", 1)]
            registry.delete_version(name, 1)
            assert registry.lookup(asked) == (number, 1)
            assert registry.places_of(number) == [(name, 1), (f"{name}-b", 1)]
            assert registry.places_of(2**31 - 1) == []
            proto = SchemaVersion(f"{name}-p", 1, 1, PROTOBUF, "PROTOBUF")
            assert registry.add(proto.subject, "PROTOBUF", PROTOBUF) == (registry.lookup(proto) or (None,))[0]

    def test_what_is_not_there_is_none(self, server: Server, name: str) -> None:
        with client(server) as registry:
            assert registry.by_id(2**31 - 1) is None
            assert registry.version(name, 1) is None
            assert registry.level(name) is None
            assert registry.mode(name) is None
            registry.add(name, "AVRO", record(f"{name}_Order", "a"))
            assert registry.version(name, 2) is None
            assert registry.level(name) is None
            with pytest.raises(RegistryError) as caught:
                registry.delete_version(name, 2)
            assert (caught.value.status, caught.value.code) == (404, 40402)

    def test_levels_are_of_subjects_and_of_the_registry(self, server: Server, name: str) -> None:
        with client(server) as registry:
            assert registry.level("") == "BACKWARD"
            registry.add(name, "AVRO", record(f"{name}_Order", "a"))
            registry.set_level(name, "FULL_TRANSITIVE")
            view = registry.view(levels_of=lambda subject: subject == name, whole=[""])
            assert view.levels == {"": "BACKWARD", name: "FULL_TRANSITIVE"}
            with pytest.raises(RegistryError) as caught:
                registry.set_level(name, "ODD")
            assert (caught.value.status, caught.value.code) == (422, 42203)
            assert registry.level(name) == "FULL_TRANSITIVE"

    def test_any_name_of_a_subject_is_one(self, server: Server, name: str) -> None:
        subject = f"{name}/ü +%2F?&-value"
        with client(server) as registry:
            registry.add(subject, "AVRO", record(f"{name}_Order", "a"))
            registry.set_level(subject, "NONE")
            assert registry.view(levels_of=lambda one: one == subject).levels == {subject: "NONE"}
            found = registry.version(subject, 1)
            assert found is not None
            assert found["subject"] == subject


class WithoutImports:
    """What Karapace does where Confluent's registry has mode IMPORT and contexts."""

    def test_there_is_no_mode_to_set(self, server: Server, name: str) -> None:
        with client(server) as registry:
            registry.add(name, "AVRO", record(f"{name}_Order", "a"))
            assert registry.mode(name) == "READWRITE"
            for mode in ("IMPORT", None):
                with pytest.raises(RegistryError) as caught:
                    registry.set_mode(name, mode)
                assert (caught.value.status, caught.value.code) == (405, None)

    def test_ids_and_versions_that_are_asked_for_are_ignored(self, server: Server, name: str) -> None:
        with (
            client(server) as registry,
            pytest.raises(RegistryError, match=r"has assigned id .* not 2000000000 as requested"),
        ):
            registry.register(SchemaVersion(name, 7, 2_000_000_000, record(f"{name}_Order", "a")))
        with client(server) as registry:
            assert set(own(registry.view(), name)) == {("", 1)}

    def test_ids_are_shown_without_notice_of_a_subject_or_context(self, server: Server, name: str) -> None:
        with client(server) as registry:
            number = registry.add(name, "AVRO", record(f"{name}_Order", "a"))
            assert registry.other_contexts(number) is None
            for within in (":.east:", "nobody"):
                assert registry.places_of(number, within) == [(name, 1)]

    def test_a_context_is_a_part_of_the_name_and_has_no_ids_of_its_own(self, server: Server, name: str) -> None:
        text = record(f"{name}_Order", "a")
        with client(server) as registry:
            numbers = {registry.add(subject, "AVRO", text) for subject in (name, f":.east:{name}")}
            assert len(numbers) == 1
            assert {place for place in registry.view().schemas if name in place[0]} == {
                (name, 1),
                (f":.east:{name}", 1),
            }


class LoginContract:
    def test_a_login_is_needed_and_not_shown(self, guarded: Server, name: str) -> None:
        with client(guarded, *LOGIN) as registry:
            assert registry.add(name, "AVRO", record(f"{name}_Order", "a")) > 0
        for user, password in ((LOGIN[0], "falsch"), (None, None)):
            with client(guarded, user, password) as registry, pytest.raises(RegistryError) as caught:
                registry.view()
            assert caught.value.status == 401
            assert "refuses the login" in str(caught.value)
            assert "falsch" not in str(caught.value)
