"""The service: what is asked and answered over HTTP, and how faults are told."""

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
from counterpoint.app.desk import Busy, Cell, Desk, Question, answer_of
from counterpoint.app.guard import refusal
from counterpoint.app.kserve import kserve
from counterpoint.app.page import page

__all__ = ["service"]


@final
class Answer(BaseModel):
    """What became of one row; where a single row was sent, with the conflict if there is none."""

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
        """Refuse what no text of JSON may say; text that is no JSON is told of its record alone."""
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
    """What became of checking records."""

    ok: bool
    problems: list[str]
    proved: list[bool]
    reported: list[bool]


@final
class Fault(BaseModel):
    """Why there is no answer to a request; ``error`` says the same by the inference protocol."""

    detail: str
    error: str | None = None


def service(desk: Desk) -> FastAPI:
    """The application without its door."""
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
            "decides": desk.labels,
            "steps": desk.policy.reading.steps,
            "features": {str(f.name): str(f) for f in desk.policy.features},
            "policy": desk.problem.to_dict(),
            "limits": {"rows": desk.rows, "seconds": desk.seconds},
            "version": cp.__version__,
        }

    @app.post("/explain")
    def explain(asked: Question) -> Answers:
        """The cheapest change of each row that gives the target."""
        with desk.turn():
            return _explained(desk, asked)

    @app.post("/recheck")
    def recheck(asked: Check) -> Checked:
        """Whether records are true of the model; nothing is solved."""
        with desk.turn():
            found = cp.recheck(asked.records, desk.model, accept_reported=asked.accept_reported)
        words = {"proved": found.proved.tolist(), "reported": found.reported.tolist()}
        return Checked(ok=found.ok, problems=list(found.problems), **words)

    static = Path(__file__).with_name("static")
    app.mount("/static", StaticFiles(directory=static))
    app.include_router(page(desk))
    app.include_router(kserve(desk))
    return app


def _explained(desk: Desk, asked: Question) -> Answers:
    found, rows = desk.ask(asked)
    told = [answer_of(a, row) for a, row in zip(found, rows, strict=True)]
    if asked.records:
        for one, answer in zip(told, found, strict=True):
            one["record"] = answer.to_record()
    if len(asked.rows) == 1 and (why := found[0].conflict) is not None:
        told[0]["conflict"] = str(why)
    return Answers(answers=cast("Any", told), summary=found.summary())


# Faults, in sentences; what is sent back never quotes more than its place


def _malformed(request: Request, error: Any) -> Response:
    """What was sent is not what is expected at some places: the first of them."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return refusal(400, "The body is no JSON.", request.url.path)
    at = ", ".join(str(part) for part in first["loc"][1:]) or "The body"
    said = first["msg"].removeprefix("Value error, ")
    sentence = f"{at}: {said[:1].lower()}{said[1:].removesuffix('.')}."
    return refusal(422, sentence, request.url.path)


def _told(request: Request, error: Any) -> Response:
    sentence = f"{str(error.detail).removesuffix('.')}."
    return refusal(error.status_code, sentence, request.url.path)


def _refused(request: Request, error: Any) -> Response:
    if isinstance(error, Busy):
        answer = refusal(503, str(error), request.url.path)
        answer.headers["Retry-After"] = "5"
        return answer
    failed = isinstance(error, cp.SolverFailure | cp.ReaderMismatch)
    return refusal(500 if failed else 422, str(error), request.url.path)


def _broken(request: Request, _: Exception) -> Response:
    said = "Something is broken here; whoever runs the service finds it in the log."
    return refusal(500, said, request.url.path)


HANDLERS: Any = {
    RequestValidationError: _malformed,
    HTTPException: _told,
    cp.CounterpointError: _refused,
    Exception: _broken,
}
