"""With what the store connects to PostgreSQL, also through a pooler such as PgBouncer."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event

from srm_common.store import engine as engine_module
from srm_common.store.engine import open_engine, parsed_url

ADDRESS = "postgresql+psycopg2://srm:geheim@db.example:5432/srm"


class Connecting(Exception):
    pass


def sent(engine: Engine) -> dict[str, Any]:
    """The parameters of a connection that is not made."""
    found: dict[str, Any] = {}

    def keep(_dialect: object, _record: object, _args: object, parameters: dict[str, Any]) -> None:
        found.update(parameters)
        raise Connecting

    event.listen(engine, "do_connect", keep)
    with pytest.raises(Connecting):
        engine.connect()
    return found


def test_no_option_of_ours_is_sent_with_a_connection() -> None:
    """Poolers refuse them."""
    known = {"host", "port", "user", "password", "dbname", "connect_timeout"}
    for address in (ADDRESS, f"{ADDRESS}?search_path=history,public"):
        assert sent(open_engine(parsed_url(address), 5.0)).keys() == known


def test_options_of_the_address_are_sent_as_they_are() -> None:
    found = sent(open_engine(parsed_url(f"{ADDRESS}?options=-csearch_path%3Dhistory&sslmode=require"), 5.0))
    assert (found["options"], found["sslmode"]) == ("-csearch_path=history", "require")


@pytest.mark.parametrize(
    ("address", "threshold"),
    [
        ("postgresql+psycopg://srm@db/srm", {"prepare_threshold": None}),
        ("postgresql+psycopg://srm@db/srm?prepare_threshold=5", {}),
        ("postgresql+psycopg2://srm@db/srm", {}),
    ],
)
def test_nothing_is_prepared_for_a_session(
    monkeypatch: pytest.MonkeyPatch, address: str, threshold: dict[str, Any]
) -> None:
    """By psycopg 3, which does so after some repetitions: a pooler may have given the session's server to another."""
    arguments: dict[str, Any] = {}

    def create(_url: object, *, connect_args: dict[str, Any], **_: Any) -> Engine:
        arguments.update(connect_args)
        return create_engine("sqlite://")

    monkeypatch.setattr(engine_module, "create_engine", create)
    open_engine(parsed_url(address), 5.0)
    assert arguments == {"connect_timeout": 5, **threshold}
