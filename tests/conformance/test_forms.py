"""Every form: regions are where predictions are, for every class and every order of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from strategies import FORMS

import counterpoint as cp
from counterpoint.families.additive.form import Additive
from counterpoint.families.prototypes.form import LocalPrototypes, Prototypes
from counterpoint.families.uncertain.form import FourierScores, UncertainScores
from counterpoint.families.uncertain.target import UncertainForm
from counterpoint.models.linear import LinearRegressor, LinearScores, Link, Votes
from counterpoint.problem.targets import Target
from counterpoint.programs.conditions import LinearBounds
from counterpoint.programs.region import Region
from counterpoint.testing import check_form

WIDTHS = (1, 4)


def targets(form: Any) -> list[Target]:
    """What is asked of a form; a score over functions of columns is never traded off."""
    if not isinstance(form, Additive):
        return _targets(form)
    return [target for target in _targets(form.inner) if target.demanding]


def _targets(form: Any) -> list[Target]:
    if isinstance(form, LinearRegressor):
        exponential = form.exponential
        low, high = (0.5, 2.0) if exponential else (-1.0, 1.0)
        return [cp.Interval(low, high), cp.Interval(low=low), cp.Interval(high=high)]
    classes = form.classes.tolist()
    made: list[Target] = [kind(label) for label in classes for kind in (cp.Label, cp.OtherLabel)]
    made += [cp.Label(label, margin=0.5) for label in classes]
    if len(classes) > 2:
        made += [cp.Label((classes[0], classes[-1])), cp.OtherLabel({classes[1], classes[2]})][
            : len(classes) - 2
        ]
    if isinstance(form, LinearScores) and form.link is not Link.NONE:
        made += [cp.Probability(label, p) for label in classes for p in (0.3, 0.6)]
        if form.link is Link.SOFTMAX:
            made += [cp.Tradeoff(label, 0.1) for label in classes]
    if isinstance(form, UncertainForm):
        for label in classes:
            made += [cp.Robust(label, p, "fixed") for p in (0.5, 0.9)]
            made += [cp.Robust(label, 0.9, "selection")]
    if isinstance(form, LocalPrototypes) and form.link is not Link.NONE and len(classes) == 2:
        made += [cp.Probability(label, p) for label in classes for p in (0.3, 0.5, 0.9)]
    return made


def permuted(form: Any) -> list[Any]:
    """The same model with its classes, or its prototypes, in another order."""
    if isinstance(form, Prototypes):
        return reordered(form)
    if isinstance(form, LocalPrototypes):
        return reordered_local(form)
    if not isinstance(form, LinearScores) or form.is_binary:
        return []
    order = np.roll(np.arange(len(form.classes)), 1)
    return [
        replace(form, matrix=form.matrix[p], offset=form.offset[p], classes=form.classes[p])
        for p in (order, order[::-1])
    ]


def reordered(form: Prototypes) -> list[Prototypes]:
    count, classes = len(form.rows), len(form.classes)
    assert (form.place == np.arange(count)).all()
    orders = [(np.roll(np.arange(n), 1), np.arange(n)[::-1]) for n in (count, classes)]
    return [
        replace(
            form,
            rows=form.rows[p],
            offsets=form.offsets[p],
            owner=np.argsort(q)[form.owner[p]],
            classes=form.classes[q],
        )
        for p, q in zip(*orders, strict=True)
    ]


def reordered_local(form: LocalPrototypes) -> list[LocalPrototypes]:
    counts = len(form.offsets), len(form.classes), len(form.factors)
    orders = [(np.roll(np.arange(n), 1), np.arange(n)[::-1]) for n in counts]
    return [
        replace(
            form,
            factors=form.factors[r],
            metric=np.argsort(r)[form.metric[p]],
            shifts=form.shifts[p],
            offsets=form.offsets[p],
            owner=np.argsort(q)[form.owner[p]],
            classes=form.classes[q],
        )
        for p, q, r in zip(*orders, strict=True)
    ]


def swapped(form: Any) -> list[Any]:
    """A binary model with its classes swapped: the decision changes its sign."""
    if isinstance(form, FourierScores):
        return [replace(form, weights=-form.weights, classes=form.classes[::-1])]
    if isinstance(form, UncertainScores):
        return [replace(form, scores=scores) for scores in swapped(form.scores)]
    if not (isinstance(form, LinearScores) and form.is_binary):
        return []
    coef, intercept = -form.matrix[1], -form.offset[1]
    return [LinearScores.binary(coef, intercept, form.classes[::-1], link=form.link)]


def points(form: Any, width: int) -> np.ndarray:
    """Enough of them in the region of every class, however small."""
    if isinstance(form, UncertainForm):
        return 3.0 * np.random.default_rng(1).normal(size=(300, width))
    narrow = width == 1 and not isinstance(form, LocalPrototypes)
    return 20.0 * np.random.default_rng(1).normal(size=(5000 if narrow else 1000, width))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", FORMS)
def test_every_form_conforms(name: str, width: int):
    form = FORMS[name](np.random.default_rng(3), width)
    asked = targets(form)
    if width == 1:  # on a line a class may have no region at all
        asked = [
            t
            for t in asked
            if isinstance(t, cp.Tradeoff) or 0 < (form.margin(points(form, 1), t) >= 0).mean() < 1
        ]
        assert len(asked) > len(form_classes(form))
    same = permuted(form) + swapped(form)
    check_form(form, asked, same=same, points=points(form, width))


def form_classes(form: Any) -> list[Any]:
    form = form.inner if isinstance(form, Additive) else form
    return [] if isinstance(form, LinearRegressor) else form.classes.tolist()


def test_votes_do_not_depend_on_the_order_of_classes_but_in_ties():
    """Swapping two classes turns the sign of their pair and permutes the others."""
    form = FORMS["votes of three"](np.random.default_rng(0), 3)
    X = np.random.default_rng(1).normal(size=(2000, 3))
    signs = np.sign(X @ form.matrix.T + form.offset)
    cycle = (signs == [1, -1, 1]).all(axis=1) | (signs == [-1, 1, -1]).all(axis=1)
    flip = np.array([-1.0, 1.0, 1.0])  # (0,1) (0,2) (1,2) → (1,0) (1,2) (0,2)
    order = [0, 2, 1]
    other = Votes(
        flip[:, None] * form.matrix[order], flip * form.offset[order], form.classes[[1, 0, 2]]
    )
    assert (form.predict(X) == other.predict(X))[~cycle].all()
    assert (~cycle).any()


# The suite itself catches what it is for


def test_the_suite_catches_a_class_that_is_taken_for_another():
    form = FORMS["three classes"](np.random.default_rng(3), 4)
    wrong = replace(form, classes=form.classes[[1, 0, 2]])
    with pytest.raises(AssertionError, match="Another order changes"):
        check_form(form, [cp.Label(form.classes[0])], same=[wrong], points=points(form, 4))


def test_the_suite_catches_a_region_that_is_not_where_the_prediction_is(
    monkeypatch: pytest.MonkeyPatch,
):
    form = FORMS["binary"](np.random.default_rng(3), 4)
    off = LinearBounds(-form.matrix[1][None, :], [-np.inf], form.offset[1] - 5.0, np.ones(1))
    monkeypatch.setattr(LinearScores, "regions", lambda self, target: (Region((off,)),))
    with pytest.raises(AssertionError, match="by the margin"):
        check_form(form, [cp.Label(form.classes[1])])
