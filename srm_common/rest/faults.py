"""Errors of the API: one shape for all, ``{"errors": [{"code", "message", ...}]}``, with stable codes.

``code`` is for programs, ``message`` for people. docs/rest.md lists the codes; a test compares it with this module.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from srm_common import errors
from srm_common.rest.schemas import Fault

_LOG = logging.getLogger(__name__)

#: The project's errors: (HTTP status, code). The nearest class counts.
OF_CLASS: Mapping[type[errors.SrmError], tuple[int, str]] = {
    errors.SrmError: (500, "error"),
    errors.ConfigError: (503, "configuration_broken"),
    errors.UnknownFlow: (404, "unknown_flow"),
    errors.ClusterError: (502, "cluster_error"),
    errors.UnreachableCluster: (502, "cluster_unreachable"),
    errors.AccessDenied: (502, "cluster_access_denied"),
    errors.StateError: (502, "state_unusable"),
    errors.OwnershipError: (409, "flow_owned_elsewhere"),
    errors.FlowRunning: (409, "flow_running"),
    errors.PartitionError: (409, "partition_error"),
    errors.StoreError: (503, "store_unavailable"),
    errors.StoreTooNew: (503, "store_too_new"),
    errors.PeerError: (502, "peer_failed"),
    errors.AirflowError: (502, "airflow_failed"),
    errors.EditConflict: (409, "edit_conflict"),
}
#: Errors of HTTP itself, by status; others are "http_error".
OF_STATUS: Mapping[int, str] = {
    400: "bad_request",
    401: "login_needed",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    413: "too_large",
    415: "json_expected",
    422: "invalid_parameter",
    500: "internal_error",
    503: "unavailable",
}


class Faults(BaseModel):
    """The response in place of data."""

    errors: list[Fault]


class ApiError(Exception):
    """A request that is refused; ``code`` is stable, ``message`` one sentence."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        flow: str | None = None,
        field: str | None = None,
        service: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.fault = Fault(code=code, message=message, flow=flow, field=field, service=service)
        self.headers = dict(headers or {})


def fault_of(error: errors.SrmError, *, flow: str | None = None, service: str | None = None) -> Fault:
    """An error as an entry of ``errors[]``."""
    return Fault(code=_of_class(error)[1], message=str(error), flow=flow, service=service)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Error responses of a route, for the OpenAPI document; always including 401 and 403."""
    return {
        status: {"model": Faults, "description": HTTPStatus(status).phrase} for status in sorted({401, 403, *statuses})
    }


def handle_faults(app: FastAPI) -> None:
    """Make ``app`` return every error in this format."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(errors.SrmError, _srm_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected)


def _of_class(error: errors.SrmError) -> tuple[int, str]:
    return next(OF_CLASS[kind] for kind in type(error).__mro__ if kind in OF_CLASS)


def refusal(status: int, faults: Sequence[Fault], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer in place of data."""
    content = {"errors": [jsonable_encoder(fault, exclude_none=True) for fault in faults]}
    return JSONResponse(content, status, dict(headers or {}))


def _api_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return refusal(error.status, [error.fault], error.headers)


def _srm_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.SrmError)
    status, code = _of_class(error)
    if status >= 500:
        _LOG.warning("%s %s: %s", request.method, request.url.path, error)
    return refusal(status, [Fault(code=code, message=str(error))])


def _invalid(_: Request, error: Exception) -> JSONResponse:
    """One entry for each parameter or field that is wrong; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    faults = []
    for one in error.errors():
        # ("query", "limit"), ("body", "lists", "topics"); for JSON that cannot be read, where reading stopped
        place = [str(part) for part in one["loc"]]
        if one["type"] == "json_invalid":
            sentence = f"the body is not JSON: {one['ctx']['error']}, at character {place[-1]}"
            faults.append(Fault(code=OF_STATUS[422], message=sentence))
            continue
        field = ".".join(place[1:] or place)
        what = "there is no such field" if one["type"] == "extra_forbidden" else one["msg"]
        faults.append(Fault(code=OF_STATUS[422], message=f"{field}: {what}", field=field))
    return refusal(422, faults)


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    message = str(error.detail)
    if message == HTTPStatus(status).phrase:
        message = {
            404: f"there is nothing at {request.url.path}",
            405: f"{request.method} is not supported here; see the API's description at docs",
        }.get(status, message)
    return refusal(status, [Fault(code=OF_STATUS.get(status, "http_error"), message=message)], error.headers)


def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _LOG.error("%s %s failed", request.method, request.url.path, exc_info=error)
    sentence = f"an unexpected error occurred ({type(error).__name__}); see the server's log"
    return refusal(500, [Fault(code=OF_STATUS[500], message=sentence)])
