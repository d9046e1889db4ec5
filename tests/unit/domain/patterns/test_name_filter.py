from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srm_common.domain.patterns.java_regex import RegexError, compile_java_regex
from srm_common.domain.patterns.name_filter import NameFilter, PatternList, check_patterns, split_list


def topics(include: str, exclude: str = "") -> NameFilter:
    return NameFilter.of("topics", split_list(include), split_list(exclude))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", ()),
        ("  ", ()),
        ("a", ("a",)),
        (" a , b,c ", ("a", "b", "c")),
        ("a,,b", ("a", "", "b")),
        ("a,", ("a", "")),
        (r"x{1,3}, y", ("x{1,3}", "y")),
        (r"x{2,},y", ("x{2,}", "y")),
        (r"\{1,3\}", (r"\{1", r"3\}")),
    ],
)
def test_lists(text: str, pieces: tuple[str, ...]) -> None:
    assert split_list(text) == pieces


def test_the_whole_name_must_match() -> None:
    assert topics("foo.*").decide("foo-bar").accepted
    assert not topics("foo").decide("foo-bar").accepted
    assert topics("^test-topic-.*").decide("test-topic-1").accepted
    assert not topics("FOO").decide("foo").accepted


def test_exclude_wins_and_the_reason_names_the_expression() -> None:
    chosen = topics("orders.*, users", r".*\.replica, orders-secret")
    assert chosen.decide("orders-1").reason == "'orders.*' of topics matches it"
    assert chosen.decide("orders-secret").reason == "excluded by 'orders-secret' of topics.exclude"
    assert chosen.decide("payments").reason == "no expression of topics matches it"


def test_an_empty_list_matches_nothing() -> None:
    assert not topics("").decide("a").accepted
    assert topics(".*", "").decide("__x").accepted


def test_a_flag_stays_on_for_the_expressions_after_it() -> None:
    assert topics("(?i)foo, bar").decide("BAR").accepted
    assert not topics("bar, (?i)foo").decide("BAR").accepted


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a(b", 3),
        ("ab)", 2),
        ("a[b", 1),
        ("x{1", 1),
        ("*a", 0),
        ("[a&&b]", 2),
        ("[a[b]]", 2),
        (r"a\p{Greek}", 1),
        ("a\\", 1),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused_with_its_position(pattern: str, position: int) -> None:
    with pytest.raises(RegexError, match=f"at position {position + 1}") as caught:
        PatternList([pattern])
    assert caught.value.position == position
    assert check_patterns((pattern,)) is not None


NAMES = st.text("abcAB01-_.", max_size=6)


@given(st.lists(NAMES, max_size=4), st.lists(NAMES, max_size=4), NAMES)
def test_accepted_is_included_and_not_excluded(include: list[str], exclude: list[str], name: str) -> None:
    quote = [rf"\Q{text}\E" for text in include], [rf"\Q{text}\E" for text in exclude]
    assert NameFilter.of("topics", *quote).decide(name).accepted == (name in include and name not in exclude)


@given(st.text(max_size=12))
def test_any_text_is_compiled_or_refused_by_its_position(pattern: str) -> None:
    refused = check_patterns((pattern,))
    if refused is None:
        assert compile_java_regex(pattern).text == pattern
    else:
        assert 0 <= refused.position <= len(pattern)


ORACLE = """
import java.io.*; import java.nio.file.*; import java.util.regex.*;
public class Oracle {
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        String[] names = Files.readString(Path.of(args[1])).split("\\n", -1);
        for (String joined : Files.readString(Path.of(args[0])).split("\\n", -1)) {
            Pattern pattern = Pattern.compile(joined);
            for (String name : names) out.append(pattern.matcher(name).matches() ? '1' : '0');
            out.append('\\n');
        }
        System.out.print(out);
    }
}
"""


def test_expressions_mean_what_they_mean_in_java(tmp_path: Path) -> None:
    lists = [
        ["(?i)foo", "bar"],
        ["one(?i)two|three", "four"],
        ["a(?i:b)c", "ABC"],
        ["(a(?i)b|c)d", "x"],
        ["(?i)a(?-i)b", "c"],
        [r"\Qa.b\E", r"a\.b+"],
        [r"[a-c\d]+", r"\p{Upper}{2,3}"],
        [r"\p{Alnum}*\P{Alpha}"],
        ["(?<x>a)b\\k<x>"],
        ["a++b", "(?>ab)c"],
        [r"\w+\s?", r"\D"],
        ["(?!foo).*"],
        ["[^.]*", r"[\-\.]x"],
        ["(a|b)*?c{2}"],
        ["^foo$", "(?s).*z"],
        [".*"],
    ]
    names = ["foo", "FOO", "BAR", "bar", "onetwo", "oneTWO", "THREE", "four", "FOUR", "aBc", "ABC", "abc", "abd", "aCd",
             "aBd", "x", "X", "Ab", "AB", "C", "a.b", "axb", "a.bb", "ab3", "AB", "ABCD", "aba", "aab", "a-", "w_1",
             "é", "1", "-", ".x", "-x", "abcc", "", "fooz"]  # fmt: skip
    (tmp_path / "Oracle.java").write_text(ORACLE)
    (tmp_path / "patterns").write_text("\n".join("|".join(patterns) for patterns in lists), encoding="utf-8")
    (tmp_path / "names").write_text("\n".join(names), encoding="utf-8")
    # It lives for a second: the better compiler would cost more than it brings.
    short = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    command = ["java", *short, "-Dfile.encoding=UTF-8", "Oracle.java", "patterns", "names"]
    answer = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    for patterns, row in zip(lists, answer, strict=True):
        compiled = PatternList(patterns)
        ours = "".join("1" if compiled.matching(name) is not None else "0" for name in names)
        wrong = [name for name, mine, java in zip(names, ours, row, strict=True) if mine != java]
        assert not wrong, f"{patterns} differs for {wrong}"
