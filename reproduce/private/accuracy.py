"""Figure 3: accuracy against privacy."""

from __future__ import annotations

import numpy as np
from harness.figures import panels, plain
from harness.report import Claim, Section
from harness.timing import number

from counterpoint.privacy.noise import NoiseLaw, ProjectedGamma, ProjectedLaplace
from private.paper import BETAS as TEN_BETAS
from private.paper import F, along_beta, repository

BETAS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CURVE = tuple(np.geomspace(0.1, 50.0, 25))
PRINTED = {0.1: 0.416, 5.64: 0.865, 11.19: 0.897, 22.28: 0.919, 50.0: 0.919}
"""β: the mean accuracy over ten draws that the paper's repository finds."""
PUBLIC = 0.924
"""And without noise."""
LAWS = {
    "Laplace, bound (10)": ("#0072b2", "--", ProjectedLaplace, 1.0),
    "Laplace, tight": ("#0072b2", "-", ProjectedLaplace, 0.5),
    "gamma, bound (10)": ("#009e73", "--", ProjectedGamma, 1.0 / np.sqrt(F)),
    "gamma, tight": ("#009e73", "-", ProjectedGamma, 0.5 / np.sqrt(F)),
}
"""The first is the paper's: colour, dashes, law, and its scale in units of the paper's λ."""
TEXT = """
The share of the test set that the released model decides as labelled, averaged over {draws} draws
of the noise; the rows and the random features of the paper's repository. "Bound (10)" is the
paper's sensitivity, "tight" half of it, which is enough and proved to be.
"""
NOTE = """
The repository averages over ten draws of the noise, of which the standard deviation is {spread:.3f}
at β = 0.1: so 0.416, where {draws} draws find one half, is chance.
"""


def accuracies(law: NoiseLaw, draws: int) -> np.ndarray:
    """The accuracy of each released model."""
    truth = repository()
    weights = truth.weights + law.draw(draws, random_state=0)
    scores = weights @ truth.model.features(truth.data.test).T
    return ((scores >= 0.0) == (truth.data.truth == 1)).mean(axis=1)


def section(draws: int) -> Section:
    """Figure 3 and its table."""
    means = {}
    figure, axes = panels(1, 1, size=(5.8, 3.8))
    ax, truth = axes[0, 0], repository()
    for name, (colour, dashes, law, units) in LAWS.items():
        laws = {beta: law(units * truth.scale(beta), F) for beta in (*BETAS, *CURVE)}
        shares = {beta: accuracies(laws[beta], draws).mean() for beta in laws}
        means[name] = [shares[beta] for beta in BETAS]
        ax.plot(CURVE, [shares[beta] for beta in CURVE], dashes, color=colour, label=name)
    public = float(((truth.lead(truth.data.test, 1) >= 0.0) == (truth.data.truth == 1)).mean())
    ten = along_beta().accuracy.mean(axis=0)
    ax.plot(TEN_BETAS, ten, "x", color="#444444", label="paper's ten draws")
    ax.axhline(public, color="#444444", linestyle=":", label="without noise")
    ax.set(xlabel="β", ylabel="mean accuracy", xscale="log", ylim=(0.4, 0.96))
    plain(ax.xaxis, (1,))
    ax.legend(fontsize=8)
    first = next(iter(LAWS))
    paper = ProjectedLaplace(truth.scale(BETAS[0]), F)
    spread = accuracies(paper, draws).std() / np.sqrt(10)
    return Section(
        "Figure 3: accuracy and privacy",
        TEXT.format(draws=number(draws)),
        ("noise", *(f"β = {b:g}" for b in BETAS)),
        [(name, *(f"{mean:.3f}" for mean in row)) for name, row in means.items()],
        [NOTE.format(spread=spread, draws=number(draws))],
        {"private_accuracy": figure},
        _claims(np.array(means[first]), public, ten),
    )


def _claims(means: np.ndarray, public: float, ten: np.ndarray) -> list[Claim]:
    measured = [float(ten[np.abs(TEN_BETAS - beta).argmin()]) for beta in PRINTED]
    error = max(abs(a - b) for a, b in zip(measured, PRINTED.values(), strict=True))
    rises = bool((np.diff(means) > -0.002).all()) and abs(means[-1] - public) < 0.01
    half = abs(means[0] - 0.5) < 0.03
    printed = " ".join(f"{value:.3f}" for value in PRINTED.values())
    rate = " ".join(f"{value:.3f}" for value in measured)
    return [
        Claim(
            "accuracy without noise",
            f"{PUBLIC:.3f} (its repository)",
            f"{public:.3f}, with its features",
            abs(public - PUBLIC) < 5e-4,
        ),
        Claim(
            f"accuracy at β = {', '.join(f'{beta:g}' for beta in PRINTED)}",
            f"{printed} (its repository, ten draws)",
            f"{rate}, seed by seed",
            error < 5.1e-4,
        ),
        Claim(
            "accuracy at the smallest β, about ½ (figure 3)", "0.5", f"{means[0]:.3f}", bool(half)
        ),
        Claim(
            "it rises with β, to that without noise",
            "yes",
            " ".join(f"{mean:.3f}" for mean in means),
            bool(rises),
        ),
    ]
