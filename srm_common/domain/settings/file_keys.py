"""Keys for the file as a whole: clusters, the targets of this installation, secret providers."""

from __future__ import annotations

from collections.abc import Iterator

from srm_common.domain.settings.key import Key, Kind, Level

_SECTION = "The file as a whole"
_TOP_ONLY = (Level.TOP,)
_NOTHING = "There is no sensible default."


def file_keys() -> Iterator[Key]:
    yield Key(
        "clusters",
        _SECTION,
        Kind.NAMES,
        None,
        "Aliases of all clusters. Required. An alias becomes part of topic names, so it may contain letters, digits, "
        "`.`, `_` and `-`, and under `DefaultReplicationPolicy` not the separator.",
        _NOTHING,
        levels=_TOP_ONLY,
    )
    yield Key(
        "streams.replication.manager.driver.target.cluster",
        _SECTION,
        Kind.NAMES,
        None,
        "Target clusters that this installation writes to; flows to others have no DAG here and are not run. Set it "
        "if several installations share one file, each next to its own target (pull mode).",
        "One installation serves all flows.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "config.providers",
        _SECTION,
        Kind.NAMES,
        None,
        "Names of additional secret providers; see Secrets.",
        "`env`, `file` and `dir` are always available.",
        levels=_TOP_ONLY,
    )
    yield Key(
        "config.providers.*",
        _SECTION,
        Kind.TEXT,
        None,
        "Class and restrictions of a provider; see Secrets.",
        _NOTHING,
        levels=_TOP_ONLY,
    )
    yield Key(
        "streams.replication.manager.config",
        _SECTION,
        Kind.TEXT,
        None,
        "Streams Replication Manager's list of entries; `srm-control config convert` converts it.",
        note="Its entries are not read; `srm-control config convert` converts them.",
        levels=_TOP_ONLY,
    )
