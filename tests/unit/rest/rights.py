"""The right that each request needs which is no GET, for walks over all of them by every role."""

from __future__ import annotations

from collections.abc import Mapping

_FLOW = "/api/v2/flows/{source}/{target}"
#: Method and path -> right. A plan, which changes nothing, is for viewers, previews for who may save what they show.
NEEDED: Mapping[tuple[str, str], str] = {
    ("PUT", f"{_FLOW}/filters"): "edit",
    ("POST", f"{_FLOW}/filters/preview"): "edit",
    ("POST", f"{_FLOW}/transforms/preview"): "edit",
    ("POST", f"{_FLOW}/offsets"): "edit",
    ("POST", f"{_FLOW}/plan"): "read",
    ("POST", f"{_FLOW}/pause"): "trigger",
    ("POST", f"{_FLOW}/resume"): "trigger",
    ("POST", f"{_FLOW}/runs"): "trigger",
    ("POST", f"{_FLOW}/moves"): "edit",
}
RIGHTS_OF = {
    "viewer": {"read"},
    "user": {"read", "trigger"},
    "op": {"read", "trigger", "edit"},
    "admin": {"read", "trigger", "edit"},
}
#: No request has such a body: who may send one is told so, before any cluster is asked. Some look at none.
BAD_BODY: list[int] = []
TAKEN = (200, 404, 422)
