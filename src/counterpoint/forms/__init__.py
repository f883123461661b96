"""The mathematics of models: what regions make up a decision."""

from counterpoint.forms.base import AffineMap, Form, Magnitude
from counterpoint.forms.fourier import FourierScores
from counterpoint.forms.linear import LinearRegressor, LinearScores, Link, LogLink, Ties, Votes
from counterpoint.forms.local import LocalPrototypes
from counterpoint.forms.prototypes import Prototypes
from counterpoint.forms.uncertain import UncertainForm, UncertainScores

__all__ = [
    "AffineMap",
    "Form",
    "FourierScores",
    "LinearRegressor",
    "LinearScores",
    "Link",
    "LocalPrototypes",
    "LogLink",
    "Magnitude",
    "Prototypes",
    "Ties",
    "UncertainForm",
    "UncertainScores",
    "Votes",
]
