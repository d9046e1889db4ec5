from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from srm_common.errors import ConfigError
from srm_common.settings_files.sources.properties import parse_properties, property_line, read_properties


def pairs(text: str) -> list[tuple[str, str]]:
    return [(found.key, found.value) for found in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b")]),
        ("a = b ", [("a", "b ")]),
        ("a:b", [("a", "b")]),
        ("a b", [("a", "b")]),
        ("a : = b", [("a", "= b")]),
        ("a == b", [("a", "= b")]),
        ("a", [("a", "")]),
        ("=b", [("", "b")]),
        ("  a\t=\tb", [("a", "b")]),
        ("# c\n! d\n\n a=b", [("a", "b")]),
        ("a=b#c", [("a", "b#c")]),
        ("a=1,\\\n   2,\\\r\n\t3\nb=4", [("a", "1,2,3"), ("b", "4")]),
        ("a=1\\\n# not a comment", [("a", "1# not a comment")]),
        ("# comment \\\na=1", [("a", "1")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\\n\nb=2", [("a", "1"), ("b", "2")]),
        ("a\\ b\\=c\\:d=e", [("a b=c:d", "e")]),
        ("a=\\u00e9\\ud83d\\ude00\\t\\n\\q", [("a", "é😀\t\nq")]),
        ("a=1\\", [("a", "1")]),
        ("\\\n", [("", "")]),
        ("\\\r\n", []),
        ("A->B.enabled=true", [("A->B.enabled", "true")]),
        ("a=b\ra=c", [("a", "b"), ("a", "c")]),
    ],
)
def test_rules(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_the_line_is_where_an_entry_starts() -> None:
    assert [found.line for found in parse_properties("\n# x\na=1\\\n 2\\\n 3\n\nb=4\r\nc=5\rd=6")] == [3, 7, 8, 9]


def test_a_malformed_escape_is_reported_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"f\.properties:2: .*four hexadecimal digits"):
        list(parse_properties("a=1\nb=\\u12x", "f.properties"))


def test_encodings(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    for data in ("clé=é\n".encode(), "clé=é\n".encode("iso-8859-1"), b"\xef\xbb\xbf" + "clé=é\r\n".encode()):
        file.write_bytes(data)
        assert [(found.key, found.value) for found in read_properties(file)] == [("clé", "é")]


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read_properties(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_properties(tmp_path)


def escape(text: str, key: bool) -> str:
    """As ``Properties.store`` writes it."""
    out = []
    for index, character in enumerate(text):
        if character == " " and (key or index == 0):
            out.append("\\ ")
        elif character in "\t\n\r\f":
            out.append({"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}[character])
        elif character in "\\=:#!":
            out.append("\\" + character)
        else:
            out.append(character)
    return "".join(out)


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), max_size=5))
def test_what_java_stores_is_read_back(entries: list[tuple[str, str]]) -> None:
    text = "".join(f"{escape(key, True)}={escape(value, False)}\n" for key, value in entries)
    assert pairs(text) == entries


ORACLE = """
import java.io.*; import java.nio.charset.*; import java.nio.file.*; import java.util.*;
public class Oracle {
    static String hex(String s) { return HexFormat.of().formatHex(s.getBytes(StandardCharsets.UTF_16BE)); }
    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder();
        for (int i = 0; i < Integer.parseInt(args[0]); i++) {
            Properties p = new Properties() {
                public synchronized Object put(Object k, Object v) {
                    out.append(hex((String) k)).append('=').append(hex((String) v)).append(' ');
                    return super.put(k, v);
                }
            };
            try (Reader reader = Files.newBufferedReader(Path.of(i + ".properties"))) { p.load(reader); }
            out.append('\\n');
        }
        System.out.print(out);
    }
}
"""


# Without shrinking: the assertion names the text, and every step of it would start Java once more.
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(
    texts=st.lists(
        st.text(st.sampled_from("ab=: \t\f\n\r\\#!.n"), max_size=25).filter(lambda text: "\\u" not in text),
        min_size=400,
        max_size=400,
    )
)
def test_files_are_read_as_java_reads_them(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("java")
    (folder / "Oracle.java").write_text(ORACLE)
    for number, text in enumerate(texts):
        (folder / f"{number}.properties").write_bytes(text.encode())
    # It lives for a second: the better compiler would cost more than it brings.
    command = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "Oracle.java", str(len(texts))]
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=300).stdout
    for text, row in zip(texts, answer.splitlines(), strict=True):
        expected = [tuple(bytes.fromhex(part).decode("utf-16-be") for part in item.split("=")) for item in row.split()]
        assert pairs(text) == expected, repr(text)


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@given(TEXT.filter(lambda key: key.strip() == key and key), TEXT.filter(lambda value: value.strip() == value))
def test_a_line_reads_back_as_it_was_written(key: str, value: str) -> None:
    (found,) = parse_properties(property_line(key, value))
    assert (found.key, found.value) == (key, value)
