"""Faults of requests that may succeed when they are sent again."""

from __future__ import annotations


class RetriableFault(Exception):
    """A request that may succeed when it is sent again; the text says what happened."""


class OlderBroker(RetriableFault):
    """A broker does not take the version of a request that others of its cluster take, as while they are upgraded."""


class AnswerTooLarge(RetriableFault):
    """The answer to this request, or to another one on the same connection, was refused for its size: ask for less."""
