"""Names of subjects within the contexts of a registry, as Confluent's server completes them."""

from __future__ import annotations

from srm_common.domain.schemas.schemas import qualified


def of_context(context: str, words: list[str], query: dict[str, str]) -> list[str]:
    """What is asked of ``/contexts/.east``, with the context in the names of subjects (``ContextFilter``)."""
    context = context.strip(":").removeprefix(".")
    if words[:2] == ["schemas", "ids"]:
        query["subject"] = within(context, query.get("subject", ""))
    elif words in (["schemas"], ["subjects"]):
        query["subjectPrefix"] = within(context, query.get("subjectPrefix", ""))
    elif words[0] in ("subjects", "config", "mode"):
        return [words[0], within(context, "".join(words[1:2])), *words[2:]]
    return words


def within(context: str, subject: str) -> str:
    """A subject as it is called from within a context: one with a context of its own is that one."""
    return subject if subject.startswith((":.", ":*:")) else qualified(context, subject)
