"""From the options of a command to a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import counterpoint as cp

__all__ = ["Wish"]


@final
@dataclass(frozen=True)
class Wish:
    """What the options say about the target.

    Parameters
    ----------
    labels
        Class labels as text.
    other
        Whether any other decision than the current one will do.
    probability
        The probability that the label shall have.
    margin
        By how much its score shall exceed the others.
    low, high
        Bounds on a predicted number.
    tradeoff
        The weight of the cost against −log of the label's probability.
    robust
        The probability that the true weights are to be for the label.
    guarantee
        What that is to mean, as for `counterpoint.Robust`.
    """

    labels: Sequence[str] = ()
    other: bool = False
    probability: float | None = None
    margin: float | None = None
    low: float | None = None
    high: float | None = None
    tradeoff: float | None = None
    robust: float | None = None
    guarantee: str | None = None

    def target(self, known: list[Any] | None, otherwise: cp.Target | None) -> cp.Target:
        """The target; ``otherwise`` is that of the policy file.

        Parameters
        ----------
        known
            The labels of the model; None for a regressor.
        otherwise
            What to take if no option says anything.
        """
        self._refuse_contradictions()
        if self.low is not None or self.high is not None:
            return self._interval(known)
        margin = self.margin or 0.0
        if self.other:
            return cp.OtherLabel(margin=margin)
        labels = tuple(_label(text, known) for text in self.labels)
        if not labels:
            return otherwise or self._nothing(known)
        return self._about(labels)

    def _about(self, labels: tuple[Any, ...]) -> cp.Target:
        """One label, or one of several."""
        if self.probability is not None:
            return cp.Probability(labels[0], self.probability)
        if self.tradeoff is not None:
            return cp.Tradeoff(labels[0], self.tradeoff)
        if self.robust is not None:
            how: Any = self.guarantee or "best"
            return cp.Robust(labels[0], self.robust, how)
        return cp.Label(labels if len(labels) > 1 else labels[0], self.margin or 0.0)

    def _refuse_contradictions(self) -> None:
        given = {
            "--target": bool(self.labels),
            "--other": self.other,
            "--low or --high": self.low is not None or self.high is not None,
        }
        ways = [name for name, is_given in given.items() if is_given]
        if len(ways) > 1:
            raise cp.InvalidInput(f"Expected one target; got {' and '.join(ways)}. Keep one.")
        about_one = {
            "--probability": self.probability,
            "--tradeoff": self.tradeoff,
            "--robust": self.robust,
        }
        given_one = [name for name, value in about_one.items() if value is not None]
        if len(given_one) > 1:
            raise cp.InvalidInput(f"Expected one of {' and '.join(given_one)}; got both. Keep one.")
        if given_one and len(self.labels) != 1:
            raise cp.InvalidInput(
                f"{given_one[0]} is about one label; got {len(self.labels)}. Say which with "
                "--target."
            )
        if self.margin is not None and (given_one or not self._is_label):
            raise cp.InvalidInput(
                "--margin goes with --target or --other, without --probability, --tradeoff or "
                "--robust."
            )
        if self.guarantee is not None and self.robust is None:
            raise cp.InvalidInput("--guarantee goes with --robust.")

    @property
    def _is_label(self) -> bool:
        return self.other or bool(self.labels)

    def _interval(self, known: list[Any] | None) -> cp.Target:
        if known is not None:
            raise cp.InvalidInput(
                "--low and --high are for models that predict numbers; this one decides between "
                f"{_listed(known)}. Say --target or --other."
            )
        inf = float("inf")
        low = -inf if self.low is None else self.low
        return cp.Interval(low, inf if self.high is None else self.high)

    @staticmethod
    def _nothing(known: list[Any] | None) -> cp.Target:
        if known is None:
            raise cp.InvalidInput(
                "Expected a range for the prediction; got none. Say --low, --high or both, or "
                "write a target in the policy file."
            )
        raise cp.InvalidInput(
            f"Expected a target; got none. Say --target with one of {_listed(known)}, or --other "
            "for any other decision than now, or write a target in the policy file."
        )


def _label(text: str, known: list[Any] | None) -> Any:
    """The label of the model whose text this is."""
    if known is None:
        raise cp.InvalidInput(
            f"This model predicts numbers and has no label {text!r}. Say --low, --high or both."
        )
    for label in known:
        if text == str(label) or _same_number(text, label):
            return label
    raise cp.InvalidInput(f"The model has no label {text!r}; it has {_listed(known)}.")


def _same_number(text: str, label: Any) -> bool:
    try:
        return not isinstance(label, bool | str) and float(text) == float(label)
    except (TypeError, ValueError):
        return False


def _listed(labels: list[Any], most: int = 12) -> str:
    shown = ", ".join(map(str, labels[:most]))
    return shown if len(labels) <= most else f"{shown} and {len(labels) - most} more"
