"""The shape of the code: who may import whom, what a class may be, what the package exports."""

from __future__ import annotations

import abc
import ast
import enum
import graphlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from counterpoint.families.registry import FAMILIES

PACKAGE = "counterpoint"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"

FORBIDDEN = {"certificate": {"solvers"}, "solvers": {"certificate"}}
SOLVER_LIBRARIES = {"clarabel", "cvxpy", "daqp", "highspy", "pyscipopt"}
KNOWING = {
    "__init__": {"uncertain"},  # `Robust` and `UncertainClassifier` are public
}
"""Modules that know a family by name, and which: nobody joins them."""

CLIENTS = {PACKAGE: {f"{PACKAGE}.audits", f"{PACKAGE}.letters"}}
"""Who imports clients of its own: the package names for type checkers what they define, and loads
it when it is asked for. No other import may run up, or in a circle."""

FILES = sorted(SOURCE.rglob("*.py"))


def module_name(file: Path) -> str:
    parts = (PACKAGE, *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part_of(module: str) -> str:
    """``counterpoint.models.linear`` → ``models``; the package itself is ``__init__``.

    Of a family of models its own folder counts: ``counterpoint.families.trees.form`` → ``trees``.
    """
    parts = module.removeprefix(f"{PACKAGE}.families.").removeprefix(f"{PACKAGE}.").split(".")
    return "__init__" if module == PACKAGE else parts[0]


@cache
def imports(file: Path) -> frozenset[str]:
    """Every module that a file imports anywhere: at the top, in functions, by name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.update(_from(node, file))
        elif isinstance(node, ast.Call) and "import" in ast.unparse(node.func):
            found.update(a.value for a in node.args[:1] if isinstance(a, ast.Constant))
    return frozenset(found)


def _from(node: ast.ImportFrom, file: Path) -> Iterator[str]:
    base = node.module or ""
    if node.level:
        above = (PACKAGE, *file.relative_to(SOURCE).parts)[: -node.level]
        base = ".".join((*above, *filter(None, [node.module])))
    for alias in node.names:
        inside = SOURCE.parent.joinpath(*base.split("."), alias.name)
        outside = base.split(".")[0] != PACKAGE
        if outside or inside.is_dir() or inside.with_suffix(".py").exists():
            yield f"{base}.{alias.name}"
        else:
            yield base


def own(file: Path) -> set[str]:
    """The parts of the package that a file imports."""
    return {part_of(name) for name in imports(file) if name.split(".")[0] == PACKAGE}


def files_of(part: str) -> list[Path]:
    return [file for file in FILES if part_of(module_name(file)) == part]


ROOMS = re.search(r"## Rooms.*?```text\n(.*?)```", ARCHITECTURE.read_text(), re.DOTALL)
FLOORS = [re.split(r" {3,}", line)[0].split() for line in ROOMS[1].splitlines()] if ROOMS else []
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def floor_of(module: str) -> int | None:
    """The line of the longest room in the list that a module is in."""
    parts = [*module.split(".")[1:], *(["__init__"] if module == PACKAGE else [])]
    names = ("/".join(parts[:end]) for end in range(len(parts), 0, -1))
    return next((FLOOR[name] for name in names if name in FLOOR), None)


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_a_module_imports_only_from_its_floor_and_those_above(file: Path):
    floor = floor_of(module_name(file))
    assert floor is not None, f"{module_name(file)} is in no room of {ARCHITECTURE.name}"
    for imported in of_the_project(file):
        above = floor_of(imported)
        assert above is not None
        assert above <= floor, f"{module_name(file)} imports {imported}, which is on a floor below"


def of_the_project(file: Path) -> set[str]:
    """The project's modules that a file imports: at the top, in functions, and for types alone."""
    names = {name for name in imports(file) if name.split(".")[0] == PACKAGE}
    return names - {module_name(file)} - CLIENTS.get(module_name(file), set())


def test_imports_run_in_no_circle():
    graph = {module_name(file): of_the_project(file) for file in FILES}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert {*graph} <= {*order}


@pytest.mark.parametrize("part", FORBIDDEN)
def test_what_proposes_and_what_judges_do_not_know_each_other(part: str):
    for file in files_of(part):
        assert not own(file) & FORBIDDEN[part]


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_solver_libraries_stay_in_solvers(file: Path):
    if "solvers" not in module_name(file).split("."):
        assert not {name.split(".")[0] for name in imports(file)} & SOLVER_LIBRARIES


@pytest.mark.parametrize("file", FILES, ids=module_name)
def test_nobody_outside_imports_a_wing(file: Path):
    name = part_of(module_name(file))
    if name not in FAMILIES:
        assert own(file) & {*FAMILIES} == KNOWING.get(name, set())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_wing_imports_no_other(family: str):
    for file in files_of(family):
        assert not own(file) & {*FAMILIES} - {family}


def test_the_certificate_reaches_no_solver():
    by_name = {module_name(file): file for file in FILES}
    reached, waiting = set[str](), [f"{PACKAGE}.certificate"]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting += [n for n in imports(by_name[name]) if n in by_name and n not in reached]
    outside = {name for module in reached for name in imports(by_name[module])}
    assert not [name for name in reached if "solvers" in name.split(".")]
    assert not {n for n in outside if n.startswith("scipy.optimize")}
    assert not {n.split(".")[0] for n in outside} & SOLVER_LIBRARIES


def test_the_layer_check_sees_every_way_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path / PACKAGE)
    for name in ("__init__", "search", "solvers/__init__", "solvers/highs"):
        file = tmp_path / PACKAGE / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for line in (
        "import counterpoint.solvers.highs",
        "from counterpoint.solvers import highs",
        "from counterpoint import solvers",
        "from . import solvers",
        "from .solvers.highs import Highs",
        "def f():\n    from counterpoint.solvers import SOLVERS",
        "importlib.import_module('counterpoint.solvers.highs')",
    ):
        file = tmp_path / PACKAGE / f"case{abs(hash(line))}.py"
        file.write_text(line)
        assert own(file) == {"solvers"}, line
    file = tmp_path / PACKAGE / "plain.py"
    file.write_text("from counterpoint import Explainer\nfrom . import explain")
    assert own(file) == {"__init__"}


# Classes


def project_classes(module: ModuleType) -> list[type]:
    classes = filter(inspect.isclass, vars(module).values())
    return [c for c in classes if c.__module__ == module.__name__]


def ancestors(cls: type) -> list[type]:
    return [c for c in cls.__mro__[1:] if c.__module__.split(".")[0] == PACKAGE]


def is_abstract(cls: type) -> bool:
    return inspect.isabstract(cls) or abc.ABC in cls.__bases__


def overridden(cls: type) -> set[str]:
    """Names of concrete methods of project classes that a class defines anew."""
    return {
        name
        for base in ancestors(cls)
        for name, old in vars(base).items()
        if name in vars(cls)
        and not name.startswith("__")
        and (inspect.isfunction(old) or isinstance(old, property | classmethod | staticmethod))
        and not getattr(old, "__isabstractmethod__", False)
    }


def undocumented(cls: type) -> list[str]:
    return [
        name
        for name, value in vars(cls).items()
        if not name.startswith("_")
        and (inspect.isroutine(value) or isinstance(value, property))
        and not inspect.getdoc(getattr(cls, name))
    ]


@pytest.mark.parametrize("name", [n for n in map(module_name, FILES) if not n.endswith("__main__")])
def test_a_class_is_abstract_or_final_and_shallow(name: str):
    for cls in project_classes(importlib.import_module(name)):
        if not cls.__name__.startswith("_"):
            assert not undocumented(cls), f"{cls.__qualname__}: no docstring, own or inherited"
        if issubclass(cls, BaseException | enum.Enum):
            continue
        final = "__final__" in vars(cls)
        assert is_abstract(cls) != final, f"{cls.__qualname__} is to be either abstract or @final"
        assert len(ancestors(cls)) <= 2, f"{cls.__qualname__} inherits from {ancestors(cls)}"
        assert not overridden(cls), f"{cls.__qualname__} overrides {overridden(cls)}"


# The package


def test_the_public_names_are_one_sorted_list():
    package = importlib.import_module(PACKAGE)
    listed = [name for name in package.__all__ if not name.startswith("_")]
    public = {
        name
        for name in dir(package)
        if not name.startswith("_")
        and name != "annotations"  # from __future__
        and not inspect.ismodule(getattr(package, name))
    }
    assert package.__all__ == sorted(package.__all__)
    assert set(listed) == public
    assert all(getattr(package, name).__doc__ for name in listed)


@pytest.mark.parametrize("part", ["cli", "app", "scale"])
def test_clients_use_public_names_alone(part: str):
    for file in files_of(part):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
                module = importlib.import_module(node.module or PACKAGE)
                # A package lists its public names; in a module those without an underscore are.
                public = getattr(module, "__all__", [n for n in dir(module) if n[0] != "_"])
                assert {alias.name for alias in node.names} <= {*public, "__version__"}, (
                    ast.unparse(node)
                )


TAKEN = Path(__file__).parent / "names_for_families.txt"
"""What families take from the rest, a line a module: ``models.form: Form, Link``."""


def names_for_families() -> dict[str, set[str]]:
    """Module → names that families import from it."""
    taken: dict[str, set[str]] = {}
    for file in FILES:
        if part_of(module_name(file)) not in FAMILIES:
            continue
        for node in ast.walk(ast.parse(file.read_text(), str(file))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
                module = node.module.removeprefix(f"{PACKAGE}.")  # type: ignore[union-attr]
                if module.split(".")[0] != "families":
                    taken.setdefault(module, set()).update(alias.name for alias in node.names)
    return taken


def test_families_take_the_names_that_are_listed_and_no_others():
    """The list is what the rest promises to families: a new name needs a line, and a reason."""
    now = [
        f"{module}: {', '.join(sorted(names))}" for module, names in names_for_families().items()
    ]
    assert TAKEN.read_text().splitlines() == sorted(now), "\n".join(sorted(now))
