"""Holds one explanation for all pairs of groups, `Translations`, and writes it down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoint.errors import InvalidInput
from counterpoint.numerics import FloatArray, IntArray
from counterpoint.pictures import html

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


@final
@dataclass(frozen=True, eq=False)
class Translations:
    """Changes that lead from each group to each other.

    The change from group i to group j is the offset of j less that of i. So the way back is the
    opposite change, and any way over a third group adds up to the same, unless changes were
    truncated.

    Parameters
    ----------
    groups
        A label for each of l groups.
    names
        A name for each of d features.
    columns
        (s,) the positions of the features that any pair changes.
    levels
        (l, s) offsets of these, in feature units; only their differences count.
    costs
        (s,) what a change of one unit costs.
    strength
        λ of the fit that they come from; NaN of others.
    truncate
        How many features of the largest cost each pair changes, for comparison with methods
        that do so; None to keep all. Truncated changes need not add up.
    """

    groups: tuple[Any, ...]
    names: tuple[Hashable, ...]
    columns: IntArray
    levels: FloatArray
    costs: FloatArray
    strength: float = float("nan")
    truncate: int | None = None

    @classmethod
    def of(
        cls,
        offsets: ArrayLike,
        groups: Sequence[Any],
        names: Sequence[Hashable] | None = None,
        *,
        costs: ArrayLike | None = None,
    ) -> Translations:
        """Make translations of offsets (l, d) in feature units for l groups.

        The d features are named x0, x1 … and cost 1 a unit, unless ``names`` and ``costs`` say
        otherwise.
        """
        D = np.array(offsets, dtype=np.float64)
        if D.ndim != 2 or len(D) != len(groups) or not np.isfinite(D).all():
            raise InvalidInput(
                f"Expected finite offsets, a row for each of {len(groups)} groups; got the shape "
                f"{D.shape}. Pass an array (groups, features)."
            )
        width = D.shape[1]
        names = tuple(f"x{j}" for j in range(width)) if names is None else tuple(names)
        unit_costs = np.ones(width) if costs is None else np.asarray(costs, dtype=np.float64)
        if len(names) != width or unit_costs.shape != (width,):
            raise InvalidInput(
                f"Expected a name and a cost for each of {width} features; got {len(names)} and "
                f"{unit_costs.size}. Pass as many as there are columns."
            )
        columns = np.flatnonzero(np.ptp(D, axis=0) > 0.0)
        return cls(tuple(groups), names, columns, D[:, columns], unit_costs[columns])

    def truncated(self, k: int) -> Translations:
        """Keep the k features of the largest cost for each pair, so that changes do not add up."""
        return replace(self, truncate=k)

    def renamed(self, names: Mapping[Hashable, Hashable]) -> Translations:
        """Give features other names, by a mapping or a pandas series; a name without one stays.

        A name that several get is followed by the old one: ``new (old)``.
        """
        renamed = [names.get(name, name) for name in self.names]
        shared = {name for name, count in Counter(renamed).items() if count > 1}
        pairs = zip(self.names, renamed, strict=True)
        unique = (f"{new} ({old})" if new in shared else new for old, new in pairs)
        return replace(self, names=tuple(unique))

    @property
    def offsets(self) -> FloatArray:
        """The offsets (l, d) in feature units, relative to the first group."""
        D = np.zeros((len(self.groups), len(self.names)))
        D[:, self.columns] = self.levels - self.levels[0]
        return D

    def translation(self, start: Any, end: Any) -> FloatArray:
        """Return the change (d,) from one group to another, by labels, in feature units."""
        change = np.zeros(len(self.names))
        change[self.columns] = self.between(self.position(start), self.position(end))
        return change

    def between(self, i: int, j: int) -> FloatArray:
        """Return the change (s,) of ``columns`` between the groups at two positions."""
        change = self.levels[j] - self.levels[i]
        if self.truncate is not None:
            cost = np.abs(change) * self.costs
            change[np.argsort(-cost, kind="stable")[self.truncate :]] = 0.0
        return np.asarray(change)

    def position(self, label: Any) -> int:
        """Return the position of a group that must be there."""
        if label not in self.groups:
            raise InvalidInput(
                f"Expected a group among {', '.join(map(repr, self.groups))}; got {label!r}. "
                "Pass one of those of the fit."
            )
        return self.groups.index(label)

    def require_about(self, other: Translations) -> None:
        """Raise if groups, as text, or the number of features are not those of the other."""
        if [*map(str, self.groups)] != [*map(str, other.groups)]:
            raise InvalidInput(
                f"Expected translations of the groups {', '.join(map(repr, other.groups))}, in "
                f"this order; got {', '.join(map(repr, self.groups))}. Fit both on the same labels."
            )
        if len(self.names) != len(other.names):
            raise InvalidInput(
                f"Expected translations of {len(other.names)} features; got {len(self.names)}. "
                "Fit both on the same columns."
            )

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """The positions of all ordered pairs of groups."""
        return permutations(range(len(self.groups)), 2)

    def over_pairs(self, measure: Callable[[int, int], float], same: float = 0.0) -> FloatArray:
        """Measure each ordered pair of groups (l, l); a group and itself get ``same``."""
        matrix = np.full((len(self.groups),) * 2, same)
        for i, j in self.pairs:
            matrix[i, j] = measure(i, j)
        return matrix

    @cached_property
    def counts(self) -> IntArray:
        """The number of features (l, l) that each pair changes."""
        return self.over_pairs(lambda i, j: (self.between(i, j) != 0.0).sum()).astype(np.intp)

    @cached_property
    def sizes(self) -> FloatArray:
        """The cost (l, l) of each pair's change, ``Σ c |δ|``."""
        return self.over_pairs(lambda i, j: float(np.abs(self.between(i, j)) @ self.costs))

    def changes(self, start: Any, end: Any) -> dict[Hashable, float]:
        """Return name → change of the features that change, the largest cost first."""
        change = self.between(self.position(start), self.position(end))
        order = np.argsort(-np.abs(change) * self.costs, kind="stable").tolist()
        return {self.names[self.columns[c]]: float(change[c]) for c in order if change[c]}

    def moved(self, X: ArrayLike, start: Any, end: Any) -> FloatArray:
        """Return rows (n, d) of one group, as numbers, as they would be in another."""
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InvalidInput(
                f"Expected rows of {len(self.names)} numbers; got the shape {rows.shape}. Pass the "
                "columns of the fit, with a column for each category."
            )
        return rows + self.translation(start, end)

    def to_frame(self, names: Mapping[Hashable, Hashable] | None = None) -> pd.DataFrame:
        """Return a line for each feature that a pair changes, under other ``names`` if passed."""
        import pandas as pd

        renamed = self if names is None else self.renamed(names)
        pairs = permutations(self.groups, 2)
        lines = [(*pair, *change) for pair in pairs for change in renamed.changes(*pair).items()]
        return pd.DataFrame(lines, columns=["from", "to", "feature", "change"])

    def ranked(
        self, reference: Any, groupby: str = "groups", groups: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Rank the changes from one group to others, as scanpy keeps them in ``adata.uns``.

        ``adata.uns["rank_genes_groups"] = translations.ranked("B cells", "cell_type")`` is what
        ``scanpy.pl.rank_genes_groups`` and its relatives draw, and ``scanpy.get`` takes.

        Parameters
        ----------
        reference
            The label of the group that others are told apart from.
        groupby
            The column of ``adata.obs`` that has the groups.
        groups
            The labels of the others; None for all.

        Returns
        -------
        dict
            A field for each other group in ``names``, of the features that change; ``scores``, the
            changes in units of cost, the largest first; ``logfoldchanges``, the changes in units of
            the features; ``pvals`` and ``pvals_adj``, which are NaN, as there are none; and
            ``params``. Scanpy wants lists of one length: they end with the shortest, and a group
            to which nothing changes has none. With one group, nothing is cut.
        """
        start = self.position(reference)
        ends = map(self.position, self.groups if groups is None else groups)
        all_changes = {str(self.groups[j]): self.between(start, j) for j in ends if j != start}
        changes = {label: change for label, change in all_changes.items() if change.any()}
        if not changes:
            raise InvalidInput(
                f"Expected changes from {reference!r} to another group to rank; there are none. "
                "Pass another reference, or fit with a larger k."
            )
        shortest = min(np.count_nonzero(change) for change in changes.values())
        scores = {label: self.costs * change for label, change in changes.items()}
        largest = {
            label: np.argsort(-np.abs(score), kind="stable")[:shortest]
            for label, score in scores.items()
        }
        names = np.array([*map(str, self.names)], dtype=object)[self.columns]
        no_p_values = [np.full(shortest, np.nan)] * len(changes)

        def records(arrays: Iterable[NDArray[Any]], dtype: type = float) -> Any:
            return np.rec.fromarrays([*arrays], dtype=[(label, dtype) for label in changes])

        return {
            "params": {
                "groupby": groupby,
                "reference": str(reference),
                "method": "counterpoint",
                "use_raw": False,
                "layer": None,
            },
            "names": records((names[order] for order in largest.values()), object),
            "scores": records(scores[label][order] for label, order in largest.items()),
            "logfoldchanges": records(changes[label][order] for label, order in largest.items()),
            "pvals": records(no_p_values),
            "pvals_adj": records(no_p_values),
        }

    def sentence(self, start: Any, end: Any, most: int = 6) -> str:
        """Say what to change from one group to another, naming at most so many features."""
        changes = list(self.changes(start, end).items())
        phrases = [
            f"{'raise' if change > 0 else 'lower'} {name} by {amount(abs(change))}"
            for name, change in changes[:most]
        ]
        if len(changes) > most:
            phrases.append(f"and {len(changes) - most} more")
        return f"from {start} to {end}: {', '.join(phrases) or 'nothing changes'}"

    def sentences(self, most: int = 6) -> str:
        """Return a line for each pair of groups, in one of the two directions."""
        return "\n".join(self.sentence(*pair, most) for pair in combinations(self.groups, 2))

    def plot(self, start: Any, end: Any, most: int = 20, ax: Any = None) -> Figure:
        """Draw a bar for each feature that changes, at most so many, in units of cost.

        ``ax`` are Matplotlib axes; None for a new figure.
        """
        from counterpoint.pictures.plots import draw_bars

        changes = self.changes(start, end)
        unit_costs = dict(zip((self.names[c] for c in self.columns), self.costs, strict=True))
        bars = []
        for name, change in list(changes.items())[:most]:
            sign = "+" if change > 0.0 else "−"
            bars.append((f"{name} {sign}{amount(abs(change))}", unit_costs[name] * change))
        title = f", the {most} largest of {len(changes)} changes" if len(changes) > most else ""
        return draw_bars(bars, f"from {start} to {end}{title}", ax)

    def __repr__(self) -> str:
        pairs = ~np.eye(len(self.groups), dtype=bool)
        counts = self.counts[pairs] if pairs.any() else np.zeros(1, dtype=int)
        return (
            f"<Translations: {len(self.groups)} groups, {len(self.columns)} of {len(self.names)} "
            f"features; {counts.min()} to {counts.max()} a pair, {counts.mean():.1f} on average>"
        )

    def _repr_html_(self) -> str:
        rows = self.to_frame().itertuples(index=False)
        columns = ("from", "to", "feature", "change")
        return html.panel(repr(self)[1:-1], html.table(columns, rows, most=20))


def amount(size: float) -> str:
    """Write a number to three digits."""
    if not 1e-4 <= abs(size) < 1e7:
        return f"{size:.3g}"
    return np.format_float_positional(size, precision=3, unique=False, fractional=False, trim="-")


def to_anndata(translations: Translations, adata: Any, key: str = "group_translations") -> None:
    """Keep an explanation in ``uns`` of an AnnData, under a key."""
    stored = {entry.name: getattr(translations, entry.name) for entry in fields(translations)}
    adata.uns[key] = stored | {
        "groups": np.array([*map(str, translations.groups)]),
        "names": np.array([*map(str, translations.names)]),
        "truncate": -1 if translations.truncate is None else int(translations.truncate),
    }


def from_anndata(adata: Any, key: str = "group_translations") -> Translations:
    """Return the explanation that `to_anndata` stored; its groups and names are text."""
    if key not in adata.uns:
        raise InvalidInput(
            f"Expected an explanation in uns[{key!r}]; there is none. Keep one with to_anndata."
        )
    stored = adata.uns[key]
    groups, names = (tuple(map(str, stored[name])) for name in ("groups", "names"))
    columns = np.asarray(stored["columns"], dtype=np.intp)
    levels, costs = (np.asarray(stored[name], dtype=np.float64) for name in ("levels", "costs"))
    strength, truncate = float(stored["strength"]), int(stored["truncate"])
    cut = None if truncate < 0 else truncate
    return Translations(groups, names, columns, levels, costs, strength, cut)
