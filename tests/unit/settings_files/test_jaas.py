from __future__ import annotations

import pytest

from srm_common.settings_files.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="a;b=\\"c\\"";', {"username": "alice", "password": 'a;b="c"'}),
        (f"{PLAIN} required\n  username='alice'\n  password='p w' ;", {"username": "alice", "password": "p w"}),
        (f'{PLAIN} REQUIRED username=alice password="" ;', {"username": "alice", "password": ""}),
        (f"{PLAIN} required;", {}),
    ],
)
def test_login_modules(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert module.name == "PlainLoginModule"
    assert module.options == options
    assert "alice" not in repr(module)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{PLAIN} required username="secret"', "must end with a semicolon"),
        (f'{PLAIN} username="secret";', "must read"),
        (f'{PLAIN} required username="secret;', "quote is not closed"),
        (f"{PLAIN} required username secret;", "not written name="),
        (f"{PLAIN} required username=;", "not written name="),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
        (";", "must read"),
    ],
)
def test_a_broken_text_is_refused_without_quoting_it(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        parse_jaas(text)
    assert "secret" not in str(caught.value)
