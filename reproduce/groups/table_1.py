"""Table 1 and figures 17, 18: data whose causes are known."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from harness.report import Claim, Section
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neural_network import MLPRegressor

from counterpoint.groups import DifferenceOfMeans, Groups, GroupTranslations, Network, Translations

SEEDS = 10
STARTS = 4
ROWS = 400
CAUSES = 2
"""Features a pair that ours may change."""
LITTLE = 0.02
"""The share of all change below which a feature is not used."""
NEAR = 0.02
"""By how much correctness or coverage may be lower to count as as good."""
ORDER = {2: 0, 0: 1, 3: 2, 1: 3}
"""2 x₁ + x₂ of a group → its number in table 1."""
RATES = {"TGT": "0.906/0.961", "DBM": "0.890/0.982"}
"""Correctness/coverage in figures 17 and 18."""


@dataclass(frozen=True)
class Run:
    """One draw: ours and the difference of means, and correctness and coverage of both."""

    answers: tuple[Translations, Translations]
    rates: tuple[tuple[float, float], tuple[float, float]]

    def shares(self, method: int) -> np.ndarray:
        """(4,) the share of all change that is of each feature."""
        one = self.answers[method]
        sizes = sum(np.abs(one.translation(i, j)) for i in one.groups for j in one.groups)
        return np.asarray(sizes / max(sizes.sum(), 1e-12))


def synthetic(random: np.random.Generator, *, exact: bool) -> tuple[np.ndarray, np.ndarray]:
    """x₁ and x₂ make four groups, x₃ is noise, x₄ is caused by x₁.

    As printed, or as in the public code, where x₁ is 0 exactly if it is not 1.
    """
    coins = random.integers(0, 2, size=(ROWS, 2)).astype(float)
    noise = 0.2 * random.normal(size=(ROWS, 2))
    causes = coins + noise * (np.column_stack([coins[:, 0], np.ones(ROWS)]) if exact else 1.0)
    other = 0.5 * random.normal(size=ROWS)
    caused = causes[:, 0] + 0.05 * random.normal(size=ROWS)
    return np.column_stack([causes, other, caused]), (coins @ [2, 1]).astype(int)


def encoder(X: np.ndarray, causes: np.ndarray, seed: int) -> tuple[Network, list[int]]:
    """The first half of an autoencoder, and four clusters of what it makes of rows, numbered.

    Of a few starts the one whose clusters are most like the four groups, as the paper's are.
    """
    found = []
    for start in range(STARTS):
        model = MLPRegressor(
            hidden_layer_sizes=(12, 2, 12),
            activation="tanh",
            solver="lbfgs",
            max_iter=2000,
            random_state=STARTS * seed + start,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, X)
        space = Network(model.coefs_[:2], model.intercepts_[:2], "tanh")
        clusterer = KMeans(4, random_state=0, n_init=10)
        member = Groups.from_clusters(space.vjp(X)[0], clusterer).member
        found.append((adjusted_rand_score(causes, member), start, space, member))
    *_, space, member = max(found, key=lambda one: one[:2])
    numbers = {c: ORDER[int(np.bincount(causes[member == c]).argmax())] for c in range(4)}
    return space, [numbers[c] if len(set(numbers.values())) == 4 else c for c in member.tolist()]


def run(seed: int, *, exact: bool) -> Run:
    """One draw of the data, an encoder, and both explanations."""
    X, causes = synthetic(np.random.default_rng(seed), exact=exact)
    space, groups = encoder(X, causes, seed)
    order = {number: np.array(groups) == number for number in range(4)}
    ours = GroupTranslations(space, k=CAUSES, costs=np.ones(4), polish=True).fit(X, order)
    means = DifferenceOfMeans(space, costs=np.ones(4)).fit(X, order)
    told = (ours.judge(X, order), means.judge(X, order))
    rates = tuple((float(q.correctness.mean()), float(q.coverage.mean())) for q in told)
    return Run((ours.translations_, means.translations_), rates)


def section(where: Path | None, *, quick: bool) -> Section:
    """The table, with the paper's numbers; and how often it comes out so."""
    seeds = range(2 if quick else SEEDS)
    found = {exact: [run(seed, exact=exact) for seed in seeds] for exact in (True, False)}
    free = {exact: _unused(runs) for exact, runs in found.items()}
    count = len(seeds)
    return Section(
        "Table 1: data whose causes are known",
        f"""x₁ and x₂ make four groups, x₃ is noise, x₄ an effect of x₁. An autoencoder of
        scikit-learn with two hidden values, and clusters by k-means; the paper's own draw and
        encoder are not public. The changes of the first draw are shown, then the shares of all
        change that are of each feature, over {count} draws, with the mean correctness/coverage.""",
        ("", "method", "x₁", "x₂", "x₃", "x₄", "correctness/coverage"),
        [*_changes(where, found[True][0]), *_over_draws(found)],
        notes=[
            f"""As printed, x₁ has noise around 0 as well as around 1; in the public code it is 0
            exactly, so that x₄, which has noise of its own, is the costlier way to say the same.
            With the code's data, x₄ takes less than {LITTLE:.0%} of the change in {free[True][1]}
            of {count} draws; as printed in {free[False][1]}: there x₁ and x₄ are nearly the same,
            and which of them a sparse explanation takes is up to the encoder. Groups whose x₁ is 0
            exactly have no spread in it, and the others do, which no translation changes: hence the
            lower numbers with the code's data."""
        ],
        claims=[
            *(
                Claim(
                    f"{what} takes less than {LITTLE:.0%} of all change, data as {data}",
                    "not used",
                    f"in {free[exact][at]} of {count} draws",
                    free[exact][at] == count,
                )
                for exact, data in ((True, "in the code"), (False, "printed"))
                for at, what in enumerate(("x₃, noise,", "x₄, an effect of x₁,"))
            ),
            _as_effective(found[True]),
        ],
    )


def _as_effective(runs: list[Run]) -> Claim:
    """Whether sparse explanations are nearly as good as differences of means; the paper's too."""
    printed = [np.array(rates.split("/"), dtype=float) for rates in RATES.values()]
    here = [np.mean([one.rates[method] for one in runs], axis=0) for method in (0, 1)]
    lacks = [float((dense - sparse).max()) for sparse, dense in (printed, here)]
    said = [
        f"{rates}: {'yes' if lack <= NEAR else 'no'}, at most {max(lack, 0.0):.3f} below"
        for rates, lack in zip(
            (
                " against ".join(RATES.values()),
                " against ".join(_rates(runs, method) for method in (0, 1)),
            ),
            lacks,
            strict=True,
        )
    ]
    return Claim(
        "correctness and coverage of sparse explanations are at most "
        f"{NEAR} below those of differences of means",
        *said,
        lacks[1] <= NEAR,
    )


def _changes(where: Path | None, one: Run) -> list[list[str]]:
    """From group 0 to each other: the paper's, and ours."""
    lines = []
    printed = None
    if where is not None:
        printed = np.loadtxt(where / "results" / "Synthetic" / "exps_out.csv", delimiter=",")
    for to in (1, 2, 3):
        for method, (theirs, own) in enumerate((("TGT", "ours"), ("DBM", "DBM"))):
            if printed is not None:
                shown = (f"{c:+.3f}" for c in printed[2 * (to - 1) + method])
                lines.append([f"0 → {to}", f"{theirs}, paper", *shown, RATES[theirs]])
            change = one.answers[method].translation(0, to)
            shown = ("0" if c == 0.0 else f"{c:+.3f}" for c in change)
            rates = "/".join(f"{rate:.3f}" for rate in one.rates[method])
            lines.append([f"0 → {to}", f"{own}, here", *shown, rates])
    return lines


def _over_draws(found: dict[bool, list[Run]]) -> list[list[str]]:
    return [
        [
            f"shares, data as {'in the code' if exact else 'printed'}",
            f"{name}, here",
            *(f"{share:.0%}" for share in np.mean([r.shares(method) for r in runs], axis=0)),
            _rates(runs, method),
        ]
        for exact, runs in found.items()
        for method, name in enumerate(("ours", "DBM"))
    ]


def _rates(runs: list[Run], method: int) -> str:
    return "/".join(f"{rate:.3f}" for rate in np.mean([r.rates[method] for r in runs], axis=0))


def _unused(runs: list[Run]) -> tuple[int, int]:
    """In how many draws ours uses neither x₃, nor x₄."""
    shares = np.array([one.shares(0) for one in runs])
    return int((shares[:, 2] < LITTLE).sum()), int((shares[:, 3] < LITTLE).sum())
