"""What becomes of the positions of MirrorMaker 2's connectors in a Connect cluster."""

from __future__ import annotations

import shlex


def taken_over(flow: str, connector: str, group: str = "", offsets_topic: str = "") -> str:
    """The sentence with the command that continues from them. ``group`` and ``offsets_topic`` are those of the Connect
    workers, empty where the file does not say."""
    options = {
        "--flow": shlex.quote(flow),
        "--connector": shlex.quote(connector),
        "--connect-group": shlex.quote(group) if group else "GROUP",
        "--offsets-topic": shlex.quote(offsets_topic) if offsets_topic else "TOPIC",
    }
    command = " ".join(f"{option} {value}" for option, value in options.items())
    unknown = [
        f"{word} is {key} of the Connect workers"
        for word, key, value in (("GROUP", "group.id", group), ("TOPIC", "offset.storage.topic", offsets_topic))
        if not value
    ]
    where = f" ({', '.join(unknown)})" if unknown else ""
    return (
        f"Positions: Connect keeps those of its connectors in its own topic. Stop the connectors of {flow}, then "
        f"continue from there: srm-control takeover {command}{where}; otherwise start.positions decides where to start"
    )
