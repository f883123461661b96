"""Serve answers over HTTP, and say in sentences what is wrong with a request."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, cast, final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field, field_validator
from starlette.exceptions import HTTPException
from starlette.responses import Response

import counterpoint as cp
from counterpoint.app.dashboard import Busy, Cell, Dashboard, ExplainRequest
from counterpoint.app.guard import refusal
from counterpoint.app.kserve import kserve
from counterpoint.app.page import page
from counterpoint.app.words import clipped, readable


@final
class Answer(BaseModel):
    """The answer to one row; if a single row was sent, with the conflict if it has none."""

    row: int
    status: str
    message: str
    changes: dict[str, dict[str, Cell]]
    certificate: dict[str, float | bool | str | None]
    conflict: str | None = None
    record: dict[str, Any] | None = None


@final
class Answers(BaseModel):
    """One answer for each row, in their order, or several that follow one another."""

    answers: list[Answer]
    summary: str


@final
class Check(BaseModel):
    """Records of answers: objects, or their JSON text."""

    model_config = ConfigDict(extra="forbid")

    records: list[str | dict[str, Any]] = Field(min_length=1)
    accept_reported: bool = False

    @field_validator("records")
    @classmethod
    def _are_text(cls, records: list[str | dict[str, Any]]) -> list[str | dict[str, Any]]:
        """Refuse values that JSON cannot hold; text that is no JSON is a problem of its record."""
        for record in records:
            try:
                with suppress(json.JSONDecodeError):
                    whole = json.loads(record) if isinstance(record, str) else record
                    json.dumps(whole, ensure_ascii=False).encode()
            except UnicodeEncodeError:
                raise ValueError("half of a surrogate pair is no text") from None
            except RecursionError:
                raise ValueError("lists and objects stand in one another too often") from None
        return records


@final
class Checked(BaseModel):
    """The result of checking records."""

    ok: bool
    problems: list[str]
    proved: list[bool]
    reported: list[bool]


@final
class Fault(BaseModel):
    """Why there is no answer to a request; ``error`` says the same by the inference protocol."""

    detail: str
    error: str | None = None


def service(dashboard: Dashboard) -> FastAPI:
    """Return the application without the checks of `Guard`."""
    app = FastAPI(
        title="counterpoint",
        version=cp.__version__,
        summary="The smallest changes that change a model's decision, proved.",
        docs_url=None,
        redoc_url=None,
        responses={status: {"model": Fault} for status in (400, 401, 404, 413, 421, 422, 503)},
        exception_handlers=HANDLERS,
    )

    @app.get("/health")
    def health() -> dict[str, str]:
        """Whether the service runs."""
        return {"status": "ok"}

    @app.get("/model")
    def model() -> dict[str, Any]:
        """What was read of the model, and what may be asked."""
        return {
            "decides": dashboard.labels,
            "steps": dashboard.policy.reading.steps,
            "features": {str(f.name): str(f) for f in dashboard.policy.features},
            "policy": dashboard.problem.to_dict(),
            "limits": {"rows": dashboard.most_rows, "seconds": dashboard.seconds},
            "version": cp.__version__,
        }

    @app.post("/explain")
    def explain(request: ExplainRequest) -> Answers:
        """The cheapest change of each row that gives the target."""
        with dashboard.turn():
            return _explained(dashboard, request)

    @app.post("/recheck")
    def recheck(request: Check) -> Checked:
        """Whether records are true of the model; nothing is solved."""
        with dashboard.turn():
            result = cp.recheck(
                request.records, dashboard.model, accept_reported=request.accept_reported
            )
        most = 10  # a wrong file has a problem for each of its lines, and more are not read
        problems = [clipped(problem) for problem in result.problems[:most]]
        if len(result.problems) > most:
            problems.append(f"There are {len(result.problems) - most} more problems.")
        proved, reported = result.proved.tolist(), result.reported.tolist()
        return Checked(ok=result.ok, problems=problems, proved=proved, reported=reported)

    static = Path(__file__).with_name("static")
    app.mount("/static", StaticFiles(directory=static))
    app.include_router(page(dashboard))
    app.include_router(kserve(dashboard))
    return app


def _explained(dashboard: Dashboard, request: ExplainRequest) -> Answers:
    answers, entries = dashboard.as_json(request)
    if request.records:
        for entry, answer in zip(entries, answers, strict=True):
            entry["record"] = answer.to_record()
    if len(request.rows) == 1 and (why := answers[0].conflict) is not None:
        entries[0]["conflict"] = str(why)
    return Answers(answers=cast("Any", entries), summary=answers.summary())


# Errors in sentences, which quote nothing of a request but the place


def _malformed(request: Request, error: Any) -> Response:
    """Name the first place at which a request is not as expected."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return refusal(400, "The body is no JSON.", request.url.path)
    at = ", ".join(str(key) for key in first["loc"][1:]) or "The body"
    message = first["msg"].removeprefix("Value error, ")
    sentence = f"{at}: {message[:1].lower()}{message[1:].removesuffix('.')}."
    return refusal(422, sentence, request.url.path)


def _http_error(request: Request, error: Any) -> Response:
    sentence = f"{str(error.detail).removesuffix('.')}."
    return refusal(error.status_code, sentence, request.url.path)


def _refused(request: Request, error: Any) -> Response:
    path, sentence = request.url.path, str(error)
    if isinstance(error, Busy):
        return refusal(503, sentence, path, {"Retry-After": "5"})
    failed = isinstance(error, cp.SolverFailure | cp.ReaderMismatch)
    sentence = readable(sentence) if path.startswith("/desk/") else sentence
    return refusal(500 if failed else 422, sentence, path)


def _broken(request: Request, _: Exception) -> Response:
    sentence = "Something is broken here; whoever runs the service finds it in the log."
    return refusal(500, sentence, request.url.path)


HANDLERS: Any = {
    RequestValidationError: _malformed,
    HTTPException: _http_error,
    cp.CounterpointError: _refused,
    Exception: _broken,
}
