"""Functions that return tokens, as sasl.oauthbearer.token.provider names them. What each does is said by the options of
the login module; ``asked`` has the aliases that they were called with."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Mapping

asked: list[str] = []
#: Lets those go that hang.
over = threading.Event()


def unsecured(alias: str, options: Mapping[str, str]) -> tuple[str, float]:
    """What a broker without a validator of its own takes (RFC 7515, appendix A.5), for so many ``seconds``."""
    asked.append(alias)
    now = time.time()
    expires_at = now + float(options["seconds"])
    parts = {"alg": "none"}, {"sub": "copier", "jti": len(asked), "iat": int(now), "exp": int(expires_at)}
    text = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{text}.", expires_at


def hanging(alias: str, options: Mapping[str, str]) -> tuple[str, float]:
    asked.append(alias)
    over.wait(600)
    return "late", time.time() + 60


def returning(alias: str, options: Mapping[str, str]) -> tuple[str, float]:
    return options["token"], float(options["at"])


def failing(alias: str, options: Mapping[str, str]) -> tuple[str, float]:
    asked.append(alias)
    raise ConnectionError("the vault\ndoes not answer")
