"""The mathematics of models: what regions make up a decision."""

from counterpoint.forms.base import AffineMap, Form
from counterpoint.forms.linear import LinearRegressor, LinearScores, Link, LogLink, Ties, Votes
from counterpoint.forms.prototypes import Prototypes

__all__ = [
    "AffineMap",
    "Form",
    "LinearRegressor",
    "LinearScores",
    "Link",
    "LogLink",
    "Prototypes",
    "Ties",
    "Votes",
]
