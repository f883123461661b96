"""Every code block of every page, and every example of a docstring, runs.

The blocks of a page run in order, in one namespace and one empty folder. What a ``python`` block
prints, and what its last expression is, stands in an ``output`` block below it, which is checked;
with prompts (``>>>``) it is a doctest. A ``console`` block runs its ``$ counterpoint`` lines and
checks the output it shows. ``...`` stands for anything, as in doctest, and numbers may differ in
their last digits. A block in a language that this file does not know is an error.

``WRITE_OUTPUT=1 pytest tests/test_docs.py -k page`` writes the output blocks anew.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import io
import json
import os
import re
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient
from sklearn.datasets import load_iris
from sklearn.utils import all_estimators
from typer.testing import CliRunner

import counterpoint as cp
from counterpoint.certificate import Certificate
from counterpoint.cli import app
from counterpoint.models import dispatch
from counterpoint.problem.constraints import CONSTRAINTS
from counterpoint.problem.tables import kinds

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
BUILT = (DOCS / "_build", DOCS / "auto_examples", DOCS / "api" / "generated", DOCS / "_templates")

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^ *(?P<ticks>`{3,}|~{3,}) *(?P<language>[^\s`]*)[^\n`]*$")
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    page: Path
    line: int  # of its first line, from 0

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line + 1}"


def pages(suffix: str) -> list[Path]:
    inside = [p for p in DOCS.rglob(f"*{suffix}") if not any(b in p.parents for b in BUILT)]
    return sorted([*ROOT.glob(f"*{suffix}"), *inside])


PAGES = pages(".md")
SOURCE = ROOT / "src"
MODULES = sorted(
    ".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for file in SOURCE.rglob("*.py")
    if file.stem != "__main__"
)


def blocks(page: Path) -> list[Block]:
    found: list[Block] = []
    opened: tuple[str, str, int] | None = None
    lines = page.read_text().splitlines()
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = fence["ticks"], fence["language"], number + 1
        elif opened and line.strip() == opened[0]:
            _, language, start = opened
            found.append(Block(language, "\n".join(lines[start:number]) + "\n", page, start))
            opened = None
    assert opened is None, f"{page.name}: the block of line {opened[2]} is not closed"
    return found


def run_python(block: Block, namespace: dict[str, object]) -> str:
    """What it prints, and what its last expression is."""
    if ">>> " in block.text:
        test = doctest.DocTestParser().get_doctest(
            block.text, namespace, block.where, str(block.page), block.line
        )
        report: list[str] = []
        doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(
            test, out=report.append, clear_globs=False
        )
        assert not report, "".join(report)
        namespace.update(test.globs)
        return ""
    code = ast.parse("\n" * block.line + block.text, str(block.page))  # so that tracebacks fit
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as out:
        exec(compile(code, str(block.page), "exec"), namespace)  # noqa: S102
        if last is not None:
            value = eval(compile(ast.Expression(last.value), str(block.page), "eval"), namespace)  # noqa: S307
            if value is not None and " at 0x" not in repr(value):
                out.write(repr(value) + "\n")
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+(?:e[-+]?\d+)?")


def is_output(want: str, got: str) -> bool:
    """Whether this was to be shown, up to the last digits of numbers."""
    if doctest.OutputChecker().check_output(want, got + "\n", FLAGS):
        return True
    numbers = [np.array(NUMBER.findall(text), dtype=float) for text in (want, got)]
    alike = doctest.OutputChecker().check_output(
        NUMBER.sub("#", want), NUMBER.sub("#", got) + "\n", FLAGS
    )
    return alike and np.allclose(*numbers, rtol=1e-3, atol=1e-9)


def show(page: Path, shown: list[tuple[Block, str, Block | None]]) -> None:
    """Write what blocks printed into the page, below them."""
    lines = page.read_text().splitlines()
    for block, got, old in reversed(shown):
        end = block.line + block.text.count("\n")
        if old is not None:
            del lines[end + 1 : old.line + old.text.count("\n") + 1]
        if got:
            lines[end + 1 : end + 1] = ["", "```output", *got.splitlines(), "```"]
    page.write_text("\n".join(lines) + "\n")


def run_console(block: Block, namespace: dict[str, object]) -> None:
    assert block.text.startswith("$ "), f"{block.where}: a console block starts with `$ `"
    for entry in re.split(r"^\$ ", block.text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        command, _, want = entry.partition("\n")
        match shlex.split(command, comments=True):
            case ["counterpoint", *arguments]:
                got = run_counterpoint(arguments, block)
                same = doctest.OutputChecker().check_output(want, got, FLAGS)
                assert same or not want.strip(), f"{block.where}: {command}\n{got}"
            case ["make", *targets]:
                named = {t for t in targets if "=" not in t}
                assert named <= TARGETS, f"{block.where}: no such target"
            case ["pip" | "git" | "cd", *_]:
                pass  # how to get here
            case _:
                pytest.fail(f"{block.where}: this test does not know how to check `{command}`")


def run_counterpoint(arguments: list[str], block: Block) -> str:
    with pytest.MonkeyPatch.context() as patch:  # what is served is asked, and not waited for
        patch.setattr("uvicorn.run", lambda app, **_: TestClient(app, "http://localhost").get("/"))
        return ran_counterpoint(arguments, block)


def ran_counterpoint(arguments: list[str], block: Block) -> str:
    ran = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert ran.exit_code == 0, f"{block.where}: counterpoint {arguments}\n{ran.output}"
    return ran.stdout


def write_file(block: Block, namespace: dict[str, object]) -> None:
    """A TOML or JSON block is well formed; ``# loan.toml`` in its first line makes it that file."""
    {"toml": tomllib.loads, "json": json.loads}[block.language](block.text)
    if name := re.match(r"# ([\w-]+\.toml)\n", block.text):
        Path(name[1]).write_text(block.text)


def single_cells(request: pytest.FixtureRequest) -> dict[str, object]:
    """What ``scanpy.datasets.pbmc68k_reduced()`` returns, as far as the page looks at it."""
    kept = np.load(request.getfixturevalue("scrna") / "pbmc68k_reduced.npz")
    types = pd.Categorical(kept["bulk_names"][kept["bulk"]])
    obs = pd.DataFrame({"bulk_labels": types}, index=[f"cell {i}" for i in range(len(types))])
    adata = type("AnnData", (), {})()
    adata.X, adata.obs, adata.uns = kept["X_scaled"], obs, {}
    adata.var_names = pd.Index(kept["genes"])
    return {"adata": adata}


GIVEN = {"single_cells.md": single_cells}
"""Pages about data that do not come along, and what they begin with."""
DRAWN = {"privacy.md", "robust.md"}
"""Pages about weights with noise: what they show is one draw, and cannot be compared."""
MARKS = {"single_cells.md": [pytest.mark.data, pytest.mark.slow]}

RUN = {"console": run_console, "toml": write_file, "json": write_file}
SHOWN = {
    "text",
    "output",
    "{toctree}",
    "{include}",
    "{eval-rst}",
    "{note}",
    "{warning}",
    "{tip}",
    "{math}",
    "{glossary}",
}


@pytest.mark.further
@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=MARKS.get(p.name, [])) for p in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_block_of_a_page_runs(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
):
    given = GIVEN[page.name](request) if page.name in GIVEN else {}
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__", **given}
    found, shown = blocks(page), []
    known = {"python"} | RUN.keys() | SHOWN
    for block, after in zip(found, [*found, None][1:], strict=True):
        assert block.language in known, f"{block.where}: {block.language!r} is none of {known}"
        if block.language in RUN:
            RUN[block.language](block, namespace)
        if block.language == "python":
            got = run_python(block, namespace)
            below = after if after is not None and after.language == "output" else None
            shown.append((block, got, below))
    if "WRITE_OUTPUT" in os.environ:
        show(
            page,
            [each for each in shown if not is_output(each[2].text if each[2] else "", each[1])],
        )
        return
    for block, got, below in shown:
        want = below.text if below else ""
        same = bool(want) == bool(got) if page.name in DRAWN else is_output(want, got)
        assert same, f"{block.where} shows\n{want}\ninstead of\n{got}"


@pytest.mark.parametrize("module", MODULES)
def test_every_example_of_a_docstring_runs(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(module)):
        runner.run(test, out=report.append)
    assert not report, "".join(report)


def test_every_name_on_the_api_page_is_there():
    for name in re.findall(r"^   ([a-z]\w*\.[\w.]+)$", (DOCS / "api.md").read_text(), re.MULTILINE):
        module, _, last = f"counterpoint.{name}".rpartition(".")
        assert hasattr(importlib.import_module(module), last), name


def test_the_api_page_lists_every_public_name():
    listed = re.findall(r"^   (\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    public = importlib.import_module("counterpoint").__all__
    assert sorted(listed) == [name for name in public if not name.startswith("_")]


@pytest.mark.parametrize("package", ["groups", "lvq", "privacy"])
def test_the_api_page_lists_the_classes_of_a_package(package: str):
    listed = re.findall(rf"^   {package}\.(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    module = importlib.import_module(f"counterpoint.{package}")
    classes = {name for name in module.__all__ if isinstance(getattr(module, name), type)}
    assert classes <= set(listed) <= set(module.__all__)


def test_every_field_of_a_certificate_is_on_its_page():
    table = (DOCS / "certificates.md").read_text()
    told = set(re.findall(r"^\| `(\w+)` \|", table.partition("\n```")[0], re.MULTILINE))
    assert told == {*(field.name for field in fields(Certificate)), "on_edge"}


MODELS = (DOCS / "models.md").read_text()
MIXINS = {"object", "BaseRandomProjection", "BaseSearchCV", "SelectorMixin", "_BaseImputer"}
MIXINS |= {"AdditiveChi2Sampler", "SkewedChi2Sampler", "PolynomialCountSketch"}  # refused


def is_ours(kind: type) -> bool:
    """Whether a type is of a package, and not of a test or an example that ran before."""
    home = kind.__module__
    return home.partition(".")[0] in {"builtins", "counterpoint", "sklearn"} and (
        getattr(sys.modules[home], kind.__name__, None) is kind
    )


def test_supported_models_are_those_that_have_a_reader():
    dispatch.families()
    questions = (dispatch.read, dispatch.finish, dispatch.read_step)
    kinds = {kind for question in questions for kind in question.registry}
    known = {kind.__name__ for kind in kinds if is_ours(kind)}
    known |= {name for _, _, name in dispatch.NAMED}
    assert known - set(re.findall(r"`(\w+)`", MODELS)) == MIXINS
    rows = re.findall(r"^\| (`.*?) \|", MODELS, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    assert named - known == {"GridSearchCV"}


@pytest.mark.parametrize(
    ("targets", "names"),
    [(row[1], row[0]) for row in re.findall(r"^\| (`.*?) \| (label.*?) \|", MODELS, re.MULTILINE)],
)
def test_supported_models_take_the_targets_that_are_named(targets: str, names: str):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    options = {"KNeighborsClassifier": {"n_neighbors": 1}, "SGDClassifier": {"loss": "log_loss"}}
    options |= {name: {"kernel": "linear"} for name in ("SVC", "NuSVC")}
    other = {
        "PassiveAggressiveClassifier",
        "BernoulliNB",
        "CategoricalNB",
        "VotingClassifier",
        "OneVsRestClassifier",
    }
    classifiers = dict(all_estimators("classifier"))
    for name in set(re.findall(r"`(\w+)`", names)) & classifiers.keys() - other:
        model = classifiers[name](**options.get(name, {})).fit(X, y)
        explainer = cp.Explainer(model, data=X)
        assert explainer.explain(X[:1], 1).found.all()
        for word, target in (("probability", cp.Probability(1, 0.6)), ("trade", cp.Tradeoff(1, 1))):
            if word in targets:
                assert explainer.explain(X[:1], target).found.all()
            else:
                with pytest.raises(cp.InvalidInput, match=type(target).__name__):
                    explainer.explain(X[:1], target)


def test_every_key_of_a_policy_is_on_its_page():
    page = (DOCS / "policy_file.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \|(.*)$", page, re.MULTILINE))
    for classes in kinds().values():
        for cls, keys in classes.items():
            kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()
            assert kind in rows, f"policy_file.md has no row for {kind}"
            assert set(keys) <= set(re.findall(r"`(\w+)`", rows[kind])), kind


def test_every_constraint_is_where_users_look_for_it():
    page = (DOCS / "choosing.md").read_text()
    missing = [cls.__name__ for cls in CONSTRAINTS if cls.__name__ not in page]
    assert not missing, f"choosing.md does not name {missing}"


def test_pages_are_markdown():
    """Blocks in reStructuredText would not be run, so there are no such pages."""
    rst = [p for p in pages(".rst") if p.name != "sg_execution_times.rst"]
    assert rst == []


def test_every_page_is_one_click_from_the_first_and_in_the_sidebar():
    first, _, sidebar = (DOCS / "index.md").read_text().partition("```{toctree}")
    names = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    listed = re.findall(r"^(?:.*<)?([\w/]+)>?$", sidebar, re.MULTILINE)
    assert names | {"auto_examples/index"} == set(listed)
    assert {f"{name}.md" for name in names} <= set(re.findall(r"\]\(([\w.]+)\)", first))


def test_the_sections_in_the_header_are_those_of_the_first_page():
    context = re.search(r'"sections": (\[.*\])', (DOCS / "conf.py").read_text())
    first = (DOCS / "index.md").read_text()
    assert context
    assert json.loads(context[1]) == re.findall(r"^## (.*)$", first, re.MULTILINE)


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert {"cff-version: 1.2.0", f"version: {project['version']}"} <= {*lines}
    code = project["license"].partition(" AND ")[0]  # the data that come along have another
    assert f"license: {code}" in lines


def test_extras_are_installed_from_a_checkout():
    """The index has no counterpoint: ``pip install 'counterpoint[plots]'`` finds nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    sources = [file for file in SOURCE.rglob("*") if file.suffix in {".py", ".html", ".js"}]
    texts = {file: file.read_text() for file in [*PAGES, *sources] if file.stem != "CHANGELOG"}
    assert [file for file, text in texts.items() if "counterpoint[" in text] == []
    commands = {e for text in texts.values() for e in re.findall(r"install '\.\[(\w+)\]", text)}
    assert commands - {"NAME"} <= project["optional-dependencies"].keys()


def test_the_blocks_are_found():
    """The parser itself: it would be a pity if all pages passed because no block was seen."""
    found = [b for page in PAGES for b in blocks(page)]
    fences = sum(len(re.findall(r"^ *```", p.read_text(), re.MULTILINE)) for p in PAGES)
    assert 2 * len(found) == fences
    assert {"python", "console"} <= {b.language for b in found}


def test_a_wrong_output_is_seen(tmp_path: Path):
    page = ROOT / "README.md"
    run_python(Block("python", ">>> 1 + 1\n2\n", page, 0), {})
    with pytest.raises(AssertionError, match="Expected"):
        run_python(Block("python", ">>> 1 + 1\n3\n", page, 0), {})
    with pytest.raises(pytest.fail.Exception, match="does not know"):
        run_console(Block("console", "$ rm -r x\n", page, 0), {})
    with pytest.raises(AssertionError, match="no such target"):
        run_console(Block("console", "$ make coffee\n", page, 0), {})
