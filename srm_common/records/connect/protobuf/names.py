"""Names in Protobuf: those of map entries, and the replacement of names that Protobuf does not allow."""

from __future__ import annotations

import re
import urllib.parse

#: How the names of map entries end.
ENTRY = "Entry"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OK = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_OTHER = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def map_entry(name: str) -> str:
    """The name of the message for a map's entries, by the name of the map (``ProtobufSchema.toMapEntry``)."""
    if "_" in name:
        name = "".join(word[:1].upper() + word[1:].lower() for word in name.split("_"))
    return name + ENTRY


def map_field(name: str) -> str:
    """Confluent's name for a map, by the name of the message for its entries (``ProtobufSchema.toMapField``)."""
    before, dot, last = name.rpartition(".")
    if last.endswith(ENTRY):
        words = re.split(r"(?<=.)(?=[A-Z])", last.removesuffix(ENTRY), flags=re.DOTALL)
        last = "_".join(word.lower() for word in words)
    return before + dot + last


def scrub_name(name: str) -> str:
    """``doScrubName``: the name as ``URLEncoder`` writes it, with underscores for what Protobuf does not allow."""
    if not name or _OK.fullmatch(name):
        return name
    # URLEncoder writes blanks as +, and leaves * and - alone; all of them become underscores.
    encoded = urllib.parse.quote(name.encode("utf-8", "replace"), safe="*+").replace("%20", "+").replace("~", "%7E")
    if encoded[0].isdigit() or encoded[0] == "_":
        encoded = f"x{encoded}"
    return _OTHER.sub("_", encoded)
