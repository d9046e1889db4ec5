"""Which login counts while brokers and files change it at different times."""

from __future__ import annotations

from srm_common.domain.cluster import ClusterSettings, LoginSettings, OauthClient
from srm_common.errors import ConfigError
from srm_common.kafka.client.logins.current_login import (
    PATIENCE_SECONDS,
    CurrentLogin,
    current_login,
    taken_elsewhere,
    with_current_login,
)


def login(password: str) -> LoginSettings:
    return LoginSettings({"sasl.password": password}, {"sasl_plain_password": password})


class Source:
    """A file whose content the test sets; None is a file that cannot be read."""

    place = "/secret"
    is_quick = True

    def __init__(self, content: LoginSettings | None) -> None:
        self.content = content
        self.reads = 0

    def read(self) -> LoginSettings:
        self.reads += 1
        if self.content is None:
            raise ConfigError("there is no such file", file=self.place)
        return self.content


def test_a_login_that_is_taken_is_never_read_again() -> None:
    source = Source(login("second"))
    current = CurrentLogin(source, login("first"))
    current.taken(login("first"))
    assert not current.doubtful
    assert (current.login, source.reads) == (login("first"), 0)


def test_the_brokers_first() -> None:
    source = Source(login("first"))
    current = CurrentLogin(source, login("first"))
    current.taken(login("first"))
    assert current.refused(login("first"))
    assert current.doubtful
    assert not current.look_again()  # the same password is not tried again so soon
    source.content = login("second")
    assert current.look_again()
    assert current.login == login("second")
    current.taken(login("second"))
    assert not current.doubtful


def test_a_file_that_has_it_already() -> None:
    current = CurrentLogin(Source(login("second")), login("first"))
    assert current.refused(login("first"))
    assert current.login == login("second")
    assert current.look_again() is True
    # A late answer to the first one changes nothing.
    current.taken(login("first"))
    assert current.doubtful
    assert current.refused(login("first"))


def test_a_login_that_was_wrong_from_the_start_is_refused_at_once() -> None:
    wrong = CurrentLogin(Source(login("first")), login("first"))
    for _ in range(2):
        assert not wrong.refused(login("first"))
        assert wrong.look_again()  # so the next command is refused as well, and does not wait
    both_wrong = CurrentLogin(Source(login("second")), login("first"))
    assert both_wrong.refused(login("first"))
    assert not both_wrong.refused(login("second"))


def test_a_user_that_is_removed_is_refused_after_a_while() -> None:
    now = 1000.0
    current = CurrentLogin(Source(login("first")), login("first"), lambda: now)
    current.taken(login("first"))
    attempts = 0
    while current.refused(login("first")):
        attempts += 1
        while not current.look_again():
            now += 1
    assert now == 1000 + PATIENCE_SECONDS
    assert attempts == PATIENCE_SECONDS / 5
    assert current.look_again()


def test_a_file_that_cannot_be_read_here() -> None:
    current = CurrentLogin(Source(None), login("first"))
    assert not current.refused(login("first"))
    assert current.unreadable == (
        "a new one takes effect with the next task, as it cannot be read again here: /secret: there is no such file"
    )
    assert current.login == login("first")


def test_all_clients_of_a_process_share_it() -> None:
    source = Source(login("first"))
    cluster = ClusterSettings("east", "h:1", dict(login("first").confluent), dict(login("first").kafka_python))
    assert current_login(cluster) is None
    assert with_current_login(cluster) == cluster
    taken_elsewhere(cluster)  # nothing to remember
    object.__setattr__(cluster, "login_source", source)
    taken_elsewhere(cluster)
    current = current_login(cluster)
    assert current is not None
    assert current is current_login(cluster)
    assert current.refused(login("first"))
    source.content = login("second")
    assert current.look_again()
    assert with_current_login(cluster).login == login("second")
    assert cluster.login == login("first")


def test_tokens_are_shared_until_the_secret_changes() -> None:
    def of(secret: str) -> LoginSettings:
        return LoginSettings(
            {"sasl.oauthbearer.client.secret": secret},
            {"sasl_oauth_token_provider": OauthClient("https://login", "c", secret)},
        )

    source = Source(of("first"))
    current = CurrentLogin(source, of("first"))
    tokens = current.arguments()[1]["sasl_oauth_token_provider"]
    assert current.arguments()[1]["sasl_oauth_token_provider"] is tokens
    source.content = of("second")
    assert current.refused(of("first"))
    used, arguments = current.arguments()
    assert used == of("second")
    assert arguments["sasl_oauth_token_provider"] is not tokens


def test_a_source_that_takes_its_time_is_read_before_the_next_attempt() -> None:
    """A refusal is met in the event loop, which must not wait for a secrets backend."""
    source = Source(login("first"))
    source.is_quick = False
    current = CurrentLogin(source, login("first"))
    assert current.refused(login("first")), "there may be another one by now"
    assert source.reads == 0
    assert current.look_again()
    assert source.reads == 1
    assert not current.refused(login("first"))


def test_a_look_up_is_for_all_who_wait_for_it() -> None:
    now = 0.0
    source = Source(login("first"))
    source.is_quick = False
    current = CurrentLogin(source, login("first"), lambda: now)
    current.taken(login("first"))
    current.refused(login("first"))
    for _ in range(5):
        assert not current.look_again()
    assert source.reads == 1
    now = 2.0
    assert not current.look_again()
    assert source.reads == 2
