"""Files of models: which load without trust, which need it, and what a crafted one cannot do."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from loans import loans
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.experimental import enable_halving_search_cv, enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold, ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.tree._tree import Tree
from sklearn.utils import all_estimators
from typer.testing import CliRunner, Result

import counterpoint as cp
from counterpoint.cli import app, model_files
from counterpoint.cli.model_files import Trust
from counterpoint.cli.models import ONLY_CATEGORIES, REMARKS, SECTIONS, readable
from counterpoint.models import dispatch
from counterpoint.models.estimators import NOT_READ

pytestmark = pytest.mark.filterwarnings("ignore")  # of fits that are not finished

OPTIONS: dict[str, dict[str, Any]] = {
    "KNeighborsClassifier": {"n_neighbors": 1},
    **{name: {"kernel": "linear"} for name in ("SVC", "NuSVC", "SVR", "NuSVR")},
    **{f"{name}RandomProjection": {"n_components": 2} for name in ("Gaussian", "Sparse")},
    "OneHotEncoder": {"sparse_output": False},
    "MissingIndicator": {"features": "all", "sparse": False},
    "KBinsDiscretizer": {"encode": "onehot-dense"},
    **{name: {"param_grid": {"C": [1.0]}} for name in ("GridSearchCV", "HalvingGridSearchCV")},
    "RandomizedSearchCV": {"param_distributions": {"C": [1.0, 2.0]}, "n_iter": 2},
    "HalvingRandomSearchCV": {"param_distributions": {"C": [1.0, 2.0]}},
    "VotingClassifier": {"estimators": [("tree", DecisionTreeClassifier())]},
    "VotingRegressor": {"estimators": [("tree", DecisionTreeRegressor())]},
    "Pipeline": {"steps": [("model", LogisticRegression())]},
    "ColumnTransformer": {"transformers": [("scaled", StandardScaler(), [0, 1])]},
    "FeatureUnion": {"transformer_list": [("scaled", StandardScaler())]},
}
SEVERAL = {"MultiTaskElasticNet", "MultiTaskLasso", "MultiTaskElasticNetCV", "MultiTaskLassoCV"}


def read_classes() -> dict[str, type]:
    """The public classes of scikit-learn that a reader is registered for."""
    dispatch.families()
    questions = (dispatch.read, dispatch.finish, dispatch.read_step)
    return {
        name: kind
        for name, kind in all_estimators()
        if any(dispatch._reader(question, kind) for question in questions) and kind not in NOT_READ
    }


def rows() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.integers(1, 9, size=(80, 4)).astype(float)
    return X, 1 + (X[:, 0] + X[:, 1] > 9)


def loaded(model: Any, folder: Path) -> Any:
    skops.io.dump(model, folder / "m.skops")
    return Trust().load(folder / "m.skops")


@pytest.mark.parametrize("name", sorted(read_classes().keys() - SEVERAL))
def test_models_of_scikit_learn_that_are_read_load_without_trust(name: str, tmp_path: Path):
    kind = read_classes()[name]
    options = dict(OPTIONS.get(name, {}))
    parameter = inspect.signature(kind).parameters.get("estimator")
    if parameter is not None and parameter.default is parameter.empty:
        options["estimator"] = LogisticRegression()
    X, y = rows()
    model = kind(**options)
    if name == "FrozenEstimator":
        model.estimator.fit(X, y)
    model.fit(X, y)
    same = loaded(model, tmp_path)
    ask = "predict" if hasattr(model, "predict") else "transform"
    np.testing.assert_array_equal(getattr(same, ask)(X), getattr(model, ask)(X))


def crafted(tree: Tree, field: str, node: int, value: int) -> Tree:
    """A tree whose node points elsewhere, as no fit makes it."""
    kind, arguments, state = tree.__reduce__()
    state["nodes"][field][node] = value
    changed = kind(*arguments)
    changed.__setstate__(state)
    return changed


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
@pytest.mark.parametrize("value", [10**9, -7, 0])
def test_trees_that_point_elsewhere_are_refused(field: str, value: int, tmp_path: Path):
    X, y = rows()
    if (field, value) == ("feature", 0):
        value = 4  # one more than there are
    forest = RandomForestClassifier(3, random_state=0).fit(X, y)
    model = make_pipeline(StandardScaler(), BaggingClassifier(forest, 2, random_state=0)).fit(X, y)
    member = model[-1].estimators_[1].estimators_[2]
    member.tree_ = crafted(member.tree_, field, 0, value)
    with pytest.raises(cp.InvalidInput, match="is not a readable skops file: an index in"):
        loaded(model, tmp_path)


def test_trees_of_other_widths_are_refused(tmp_path: Path):
    X, y = rows()
    wide = RandomForestClassifier(2, random_state=0).fit(X, y)
    wide.estimators_[1] = DecisionTreeClassifier().fit(X[:, [0, 1, 2, 3, 0]], y)
    narrow = DecisionTreeClassifier().fit(X, y)
    narrow.n_features_in_ = 2
    boosted = GradientBoostingClassifier(n_estimators=2).fit(X, y)
    boosted.estimators_ = np.repeat(boosted.estimators_, 3, axis=1)
    for model in (wide, narrow, boosted):
        with pytest.raises(cp.InvalidInput, match="points to what is not there"):
            loaded(model, tmp_path)


@pytest.mark.parametrize("field", ["left", "right", "feature_idx", "bitset_idx"])
def test_histogram_trees_that_point_elsewhere_are_refused(field: str, tmp_path: Path):
    X, y = rows()
    frame = pd.DataFrame(X, columns=list("abcd")).astype({"a": "category"})
    model = HistGradientBoostingClassifier(
        max_iter=3, categorical_features="from_dtype", min_samples_leaf=2
    ).fit(frame, y)
    assert (loaded(model, tmp_path).predict(frame) == model.predict(frame)).all()
    nodes = model._predictors[2][0].nodes
    split = np.flatnonzero(nodes["is_categorical"] & ~nodes["is_leaf"].astype(bool))[0]
    nodes[field][split] = 200
    with pytest.raises(cp.InvalidInput, match="points to what is not there"):
        loaded(model, tmp_path)


def test_numbers_are_not_taken_for_categories(tmp_path: Path):
    X, y = rows()
    model = HistGradientBoostingClassifier(max_iter=3).fit(X, y)
    nodes = model._predictors[0][0].nodes
    nodes["is_categorical"][0] = 1
    with pytest.raises(cp.InvalidInput, match="points to what is not there"):
        loaded(model, tmp_path)


@pytest.mark.parametrize("algorithm", ["kd_tree", "ball_tree"])
def test_search_trees_are_made_anew(algorithm: str, tmp_path: Path):
    X, y = rows()
    model = KNeighborsClassifier(1, algorithm=algorithm, leaf_size=5).fit(X, y)
    same = loaded(model, tmp_path)
    state = list(model._tree.__getstate__())
    state[1] = state[1] + 10**9
    model._tree.__setstate__(tuple(state))
    for file in (same, loaded(model, tmp_path)):
        np.testing.assert_array_equal(file.predict(X + 0.1), same.predict(X + 0.1))
        assert max(file._tree.get_arrays()[1]) < len(X)


def test_sparse_matrices_that_point_elsewhere_are_refused(tmp_path: Path):
    X, y = rows()
    model = LogisticRegression().fit(X, y).sparsify()
    assert (loaded(model, tmp_path).predict(X) == model.predict(X)).all()
    model.coef_.indices[0] = 10**6
    with pytest.raises(cp.InvalidInput, match=r"m\.skops is not a readable skops file"):
        loaded(model, tmp_path)


def test_splines_are_made_anew(tmp_path: Path):
    X, _ = rows()
    model = SplineTransformer().fit(X)
    same = loaded(model, tmp_path)
    assert (same.transform(X) == model.transform(X)).all()
    model.bsplines_[0].c = model.bsplines_[0].c[:2]
    with pytest.raises(cp.InvalidInput, match=r"m\.skops is not a readable skops file"):
        loaded(model, tmp_path)


def test_what_else_a_search_was_told_needs_no_trust(tmp_path: Path):
    X, y = rows()
    steps = make_pipeline(SelectKBest(mutual_info_classif, k=2), LogisticRegression())
    for cv in (ShuffleSplit(2), RepeatedStratifiedKFold(n_splits=2, n_repeats=1)):
        for scoring in ("roc_auc", "f1", "neg_log_loss", "accuracy"):
            search = GridSearchCV(steps, {"selectkbest__k": [1, 2]}, cv=cv, scoring=scoring)
            assert (loaded(search.fit(X, y), tmp_path).predict(X) == search.predict(X)).all()


def run(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def test_the_name_of_a_package_stands_for_its_types(tmp_path: Path):
    X, y = loans()
    numbers = X[["age", "income"]]
    numbers.to_csv(tmp_path / "train.csv", index=False)
    for package, name in (("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")):
        kind = getattr(pytest.importorskip(package), name)
        quiet = {"verbose": -1} if package == "lightgbm" else {}
        file = tmp_path / f"{package}.skops"
        skops.io.dump(kind(n_estimators=3, **quiet).fit(numbers, y == "granted"), file)
        ask = ["explain", file, tmp_path / "train.csv", "--data", tmp_path / "train.csv", "--other"]
        told = run(*ask, code=2).stderr
        assert told.endswith(f"If you know where it comes from, add --trust {package}.\n")
        assert f"{name}" in told
        run(*ask, "--trust", package, "--show", 1)


@pytest.mark.parametrize("name", ["builtins", "os", "functools"])
def test_python_itself_is_not_trusted_as_a_whole(name: str, tmp_path: Path):
    model = LogisticRegression().fit(*rows())
    skops.io.dump(model, tmp_path / "m.skops")
    told = run("inspect", tmp_path / "m.skops", "--trust", name, code=2).stderr
    assert told.startswith(f"Error: --trust {name} would let a file call anything")


def test_only_what_a_module_of_scores_defines_is_safe():
    assert model_files._is_safe("sklearn.metrics._classification.accuracy_score")
    for name in ("np", "nothing", "Parallel", "check_array", "warnings"):
        assert not model_files._is_safe(f"sklearn.metrics._classification.{name}")


PAGE = (Path(__file__).parent.parent / "docs" / "models.md").read_text()
GENERAL = (
    *("BaseSearchCV", "SelectorMixin", "_BaseImputer", "BaseRandomProjection"),
    *("LinearClassifierMixin", "DecisionTreeClassifier", "DecisionTreeRegressor"),
)
"""Classes whose subclasses the page lists as "and other searches", "selectors", "imputers" …"""


def on_page(title: str) -> list[tuple[set[str], str]]:
    """The rows of a table of the page: the classes, and the whole row."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith(("| `", "| selectors"))]
    return [(set(re.findall(r"`([A-Z]\w+)`", row.split("|")[1])), row) for row in rows]


@pytest.mark.parametrize("section", SECTIONS)
def test_models_are_listed_as_on_their_page(section: str):
    """What is listed but not named there is a subclass of what is."""
    listed = {name: line for name, _, line in readable()[section]}
    rows = on_page(section)
    named = set().union(*(names for names, _ in rows))
    assert named <= listed.keys()
    kinds = dict(all_estimators())
    for name in listed.keys() - named - ONLY_CATEGORIES:
        bases = {base.__name__ for base in kinds[name].__mro__}
        assert bases & (named | set(GENERAL)), name
    for name in listed.keys() & REMARKS.keys():
        (row,) = [row for names, row in rows if name in names]
        assert REMARKS[name] in row


def test_models_are_listed_on_a_terminal():
    told = run("models").stdout
    for section in SECTIONS:
        assert f"{section}\n" in told
    for line in (
        r"  XGBClassifier +xgboost",
        r'  SVC +scikit-learn +kernel="linear"',
        r"  PrivateSVC +counterpoint +needs the extra privacy",
        r"  StandardScaler +scikit-learn +Standardize features",
    ):
        assert re.search(line, told)
    assert "MLPClassifier" not in told
    assert "OneVsOneClassifier" not in told
