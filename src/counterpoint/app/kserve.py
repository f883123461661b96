"""Serve the open inference protocol (KServe, version 2): rows as tensors, one for each column."""

from __future__ import annotations

import json
from typing import Any, Literal, final

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

import counterpoint as cp
from counterpoint.app.dashboard import Cell, Dashboard, ExplainRequest

NAME, VERSION = "counterpoint", "1"
OUTPUTS = ("status", "answer")
Whole = Literal["UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"]
Datatype = Whole | Literal["BOOL", "FP16", "FP32", "FP64", "BYTES"]


@final
class Tensor(BaseModel):
    """One column: a value for each row."""

    name: str
    shape: list[int] = Field(description="[n] or [n, 1].")
    datatype: Datatype
    data: list[Cell | list[Cell]] = Field(
        min_length=1, description="Flat, or nested as the shape; null where a value is missing."
    )


@final
class OutputName(BaseModel):
    """The name of an output."""

    name: str


@final
class Inference(BaseModel):
    """A request of the protocol."""

    id: str | None = None
    parameters: dict[str, Any] = Field(default={}, description="``target``, as in a policy file.")
    inputs: list[Tensor] = Field(min_length=1)
    outputs: list[OutputName] = Field(default=[], description="None of them for all.")


def kserve(dashboard: Dashboard) -> APIRouter:
    """Return the routes of the protocol, for a model named ``counterpoint`` in its one version."""
    routes = APIRouter(prefix="/v2")
    model = f"/models/{NAME}"
    version = f"{model}/versions/{VERSION}"

    @routes.get("")
    def server() -> dict[str, Any]:
        """What answers."""
        return {"name": "counterpoint", "version": cp.__version__, "extensions": []}

    @routes.get("/health/live")
    def live() -> dict[str, bool]:
        """Whether the service runs."""
        return {"live": True}

    @routes.get("/health/ready")
    def ready() -> dict[str, bool]:
        """Whether rows may be sent."""
        return {"live": True, "ready": True}

    @routes.get(f"{model}/ready")
    @routes.get(f"{version}/ready")
    def model_ready() -> dict[str, Any]:
        """Whether rows may be sent to a model."""
        return {"name": NAME, "ready": True}

    @routes.get(model)
    @routes.get(version)
    def metadata() -> dict[str, Any]:
        """The tensors that go in and come out."""
        tensors = [(f.name, _datatype(f)) for f in dashboard.policy.features]
        inputs = [{"name": name, "datatype": kind, "shape": [-1]} for name, kind in tensors]
        outputs = [{"name": name, "datatype": "BYTES", "shape": [-1]} for name in OUTPUTS]
        names = {"name": NAME, "versions": [VERSION], "platform": "counterpoint"}
        return {**names, "inputs": inputs, "outputs": outputs}

    @routes.post(f"{model}/infer")
    @routes.post(f"{version}/infer")
    def infer(request: Inference) -> dict[str, Any]:
        """Of each row ``status``, and ``answer``: the text of a JSON object."""
        return _inferred(dashboard, request)

    return routes


def _inferred(dashboard: Dashboard, request: Inference) -> dict[str, Any]:
    """Answer a request: its tensors become rows, and the answers two tensors of text."""
    names = [output.name for output in request.outputs] or [*OUTPUTS]
    for name in names:
        if name not in OUTPUTS:
            raise cp.InvalidInput(f"There is no output {name!r}; there are 'status' and 'answer'.")
    columns = {tensor.name: _values(tensor) for tensor in request.inputs}
    n = len(request.inputs[0].data)
    if len(columns) < len(request.inputs) or {*map(len, columns.values())} != {n}:
        raise cp.InvalidInput("Expected tensors of one length, each with a name of its own.")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    question = ExplainRequest(rows=rows, target=request.parameters.get("target"))
    with dashboard.turn():
        entries = dashboard.as_json(question)[1]
    data = {"status": [e["status"] for e in entries], "answer": [*map(json.dumps, entries)]}
    outputs = [{"name": k, "shape": [n], "datatype": "BYTES", "data": data[k]} for k in names]
    response = {"model_name": NAME, "model_version": VERSION, "outputs": outputs}
    return response if request.id is None else {**response, "id": request.id}


def _datatype(feature: Any) -> str:
    """Return the datatype stated for a column; numbers of other datatypes are taken too."""
    if not isinstance(feature, cp.Categorical):
        return "FP64"
    kinds = {type(category) for category in feature.categories}
    kind = kinds.pop() if len(kinds) == 1 else str
    return {bool: "BOOL", int: "INT64", float: "FP64"}.get(kind, "BYTES")


def _values(tensor: Tensor) -> list[Any]:
    """Return the values of a tensor, a row each; refuse another shape or datatype than stated."""
    nested = [cell if isinstance(cell, list) else [cell] for cell in tensor.data]
    values, n = [cell for cells in nested for cell in cells], len(tensor.data)
    is_nested = any(isinstance(cell, list) for cell in tensor.data)
    shapes = [[n, 1]] if is_nested else [[n], [n, 1]]
    if tensor.shape not in shapes or len(values) != n:
        raise cp.InvalidInput(
            "Expected tensors of one shape, [n] or [n, 1], with n values each; "
            f"{tensor.name!r} has shape {tensor.shape} and {len(values)} values."
        )
    if any(len(cells) != 1 for cells in nested):
        raise cp.InvalidInput(
            f"Expected one value in each row of a tensor; {tensor.name!r} has "
            f"{max(map(len, nested))} in one and none in another."
        )
    for value in values:
        if not (value is None or _is_of(value, tensor.datatype)):
            raise cp.InvalidInput(
                f"{tensor.name!r} has the datatype {tensor.datatype}, of which a value is none; "
                "send the datatype that the values have."
            )
    return values


def _is_of(value: Any, datatype: str) -> bool:
    if datatype in ("BOOL", "BYTES"):
        return isinstance(value, bool if datatype == "BOOL" else str)
    if isinstance(value, bool | str):
        return False
    if datatype.startswith("FP"):
        return True
    limits = np.iinfo(datatype.lower())
    return isinstance(value, int) and limits.min <= value <= limits.max
