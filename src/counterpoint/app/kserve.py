"""The open inference protocol (KServe, version 2): rows as named tensors, one for each column."""

from __future__ import annotations

import json
from typing import Any, final

from fastapi import APIRouter
from pydantic import BaseModel, Field

import counterpoint as cp
from counterpoint.app.desk import Cell, Desk, Question, answer_of

__all__ = ["kserve"]


@final
class Tensor(BaseModel):
    """One column: a value for each row."""

    name: str
    shape: list[int] = Field(description="[n] or [n, 1].")
    datatype: str
    data: list[Cell]


@final
class Inference(BaseModel):
    """A request of the protocol."""

    id: str | None = None
    parameters: dict[str, Any] = Field(default={}, description="``target``, as in a policy file.")
    inputs: list[Tensor] = Field(min_length=1)


def kserve(desk: Desk) -> APIRouter:
    """The routes of the protocol, for a model by the name ``counterpoint``."""
    routes = APIRouter(prefix="/v2")

    @routes.get("/health/live")
    @routes.get("/health/ready")
    @routes.get("/models/counterpoint/ready")
    def ready() -> dict[str, bool]:
        """Whether rows may be sent."""
        return {"ready": True}

    @routes.get("/models/counterpoint")
    def metadata() -> dict[str, Any]:
        """The tensors that go in and come out."""
        kinds = {cp.Continuous: "FP64", cp.Integer: "FP64", cp.Categorical: "BYTES"}
        columns = [
            {"name": f.name, "datatype": kinds[type(f)], "shape": [-1]}
            for f in desk.policy.features
        ]
        out = [{"name": n, "datatype": "BYTES", "shape": [-1]} for n in ("status", "answer")]
        names = {"name": "counterpoint", "platform": "counterpoint"}
        return {**names, "inputs": columns, "outputs": out}

    @routes.post("/models/counterpoint/infer")
    def infer(asked: Inference) -> dict[str, Any]:
        """Of each row ``status``, and ``answer``: the text of a JSON object."""
        n = len(asked.inputs[0].data)
        for tensor in asked.inputs:
            if tensor.shape not in ([n], [n, 1]) or len(tensor.data) != n:
                raise cp.InvalidInput(
                    "Expected tensors of one shape, [n] or [n, 1], with n values each; "
                    f"{tensor.name!r} has shape {tensor.shape} and {len(tensor.data)} values."
                )
        names = [tensor.name for tensor in asked.inputs]
        columns = zip(*(tensor.data for tensor in asked.inputs), strict=True)
        rows = [dict(zip(names, cells, strict=True)) for cells in columns]
        with desk.turn():
            found, at = desk.ask(Question(rows=rows, target=asked.parameters.get("target")))
            told = [answer_of(a, row) for a, row in zip(found, at, strict=True)]
        text = {"status": [one["status"] for one in told], "answer": [*map(json.dumps, told)]}
        outputs = [
            {"name": name, "shape": [n], "datatype": "BYTES", "data": data}
            for name, data in text.items()
        ]
        return {"model_name": "counterpoint", "id": asked.id, "outputs": outputs}

    return routes
