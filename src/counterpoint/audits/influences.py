"""Measure what protected columns do to the decisions and scores of whole groups."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from numpy.typing import NDArray

import counterpoint as cp
from counterpoint.audits.differences import share_with_interval
from counterpoint.audits.wording import AuditWords, estimate, percent
from counterpoint.errors import InvalidInput, several, some
from counterpoint.problem.constraints import named
from counterpoint.protected import Influence, influence

if TYPE_CHECKING:
    import pandas as pd


@final
@dataclass(frozen=True, eq=False)
class ProtectedColumns:
    """The effect of protected columns on rows and groups; see `counterpoint.protected.influence`.

    Parameters
    ----------
    influence
        The effect on each row that was asked about; None if the model takes none of the columns.
    unused
        Protected columns that the model does not take.
    groups
        A line for all these rows, and one for each group: how many ``rows`` can be used; of how
        many the decision changes with the protected columns alone (``decided``), the share of these
        with its interval; of how many that is not known (``undecided``); the mean ``contribution``
        of these columns to the margin of the target, in score units, negative where they count
        against it; and ``missing_share``, the part of the score that rows without the target miss
        which they account for.
    """

    influence: Influence | None
    unused: tuple[Hashable, ...]
    groups: pd.DataFrame

    @classmethod
    def of(
        cls,
        explainer: cp.Explainer,
        answers: cp.Counterfactuals,
        columns: Sequence[Hashable],
        masks: dict[str, NDArray[np.bool_]],
        confidence: float,
    ) -> Self:
        """Measure the effect of columns on rows with these answers.

        ``masks`` are those of all rows and of each group, by name, of shape (n,).

        Raises
        ------
        InvalidInput
            If there is no such column, the explainer has no data, or the target demands nothing.
        """
        import pandas as pd

        unknown = [name for name in columns if name not in answers.table.names]
        if unknown:
            raise InvalidInput(
                f"Expected columns of the rows as protected=; got {some(unknown)}. There are "
                f"{some(answers.table.names, 12)}."
            )
        used = [name for name in columns if name in answers.features.names]
        unused = tuple(name for name in columns if name not in used)
        if not used:
            return cls(None, unused, pd.DataFrame(columns=[*COLUMNS]))
        result = influence(explainer, answers, used)
        lines = [_line(result, mask, confidence) for mask in masks.values()]
        index = pd.Index([*masks], name="group")
        return cls(result, unused, pd.DataFrame(lines, index=index, columns=[*COLUMNS]))

    def heading(self, words: AuditWords) -> str:
        """Say which columns are protected, and how many rows were asked about."""
        text = ""
        if self.influence is not None:
            names = named([words.speech.name(name) for name in self.influence.features])
            count = several(len(self.influence.margin), "row")
            text = f"Protected: {names}. Asked about {count}. "
        if self.unused:
            names = named([words.speech.name(name) for name in self.unused])
            verb = "is no column" if len(self.unused) == 1 else "are no columns"
            text += f"{names} {verb} of the model: no decision rests on it directly."
        return text.strip()

    def meaning(self) -> dict[str, str]:
        """Return a sentence on each column of the table that is not plain."""
        alone = "The decision changes if nothing else does, within what the data showed."
        if self.influence is None:
            return {}
        return {
            self._alone: alone,
            "added to the score": "On average, against the mean over the data; negative: it counts "
            "against the target.",
            "of the missing score": "How much that is of the score that rows without the target "
            "miss; negative: it counts in their favour.",
        }

    @property
    def _alone(self) -> str:
        count = 0 if self.influence is None else len(self.influence.features)
        return f"decided by {'it' if count == 1 else 'them'} alone"

    def table(self, words: AuditWords) -> pd.DataFrame:
        """Return a line of text for each group."""
        import pandas as pd

        lines = [line for _, line in self.groups.iterrows()]
        decided = [estimate(line, "decided") for line in lines]
        columns = {
            "rows": [f"{line['rows']:,.0f}" for line in lines],
            self._alone: [f"{value} ({ends})" if ends else value for value, ends in decided],
            "not known": [f"{line['undecided']:,.0f}" for line in lines],
            "added to the score": [_signed(line["contribution"]) for line in lines],
            "of the missing score": [percent(line["missing_share"]) for line in lines],
        }
        if not self.groups["undecided"].any():
            del columns["not known"]
        index = [words.group(str(name)) if k else name for k, name in enumerate(self.groups.index)]
        return pd.DataFrame(columns, index=index)


COLUMNS = (
    *("rows", "decided", "decided_share", "decided_low", "decided_high"),
    *("undecided", "contribution", "missing_share"),
)


def _line(result: Influence, mask: NDArray[np.bool_], confidence: float) -> dict[str, Any]:
    """Return the line of a group, whose mask (n,) is given; see `ProtectedColumns`."""
    usable = mask & ~np.isnan(result.margin)
    short = usable & (result.margin < 0.0)  # rows whose score misses the target
    missing_score, count = result.margin[short].sum(), int(usable.sum())
    decided = int((result.decides & usable).sum())
    share, low, high = share_with_interval(decided, count, confidence)
    contribution = result.contribution[short].sum()
    return {
        "rows": count,
        "decided": decided,
        "decided_share": share,
        "decided_low": low,
        "decided_high": high,
        "undecided": int((result.undecided & usable).sum()),
        "contribution": result.contribution[usable].mean() if count else np.nan,
        "missing_share": contribution / missing_score if missing_score else np.nan,
    }


def _signed(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:+.3g}".replace("-", "−")
