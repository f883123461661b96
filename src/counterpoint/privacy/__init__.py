"""Private models: plain scikit-learn estimators whose weights can be published.

`PrivateSVC` learns a support vector machine, linear or with random Fourier features, and releases
its weights with noise that hides any single row (Rubinstein et al., 2012; Chaudhuri et al., 2011).
What is guaranteed, what has to be public and what must not be done is on the page *Private models*.
The laws of noise, `counterpoint.privacy.noise`, serve any other model with uncertain weights too.

The noise is drawn by OpenDP: in a checkout, ``pip install '.[privacy]'``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from counterpoint.errors import BudgetError, PrivacyLeakWarning

if TYPE_CHECKING:
    from counterpoint.privacy.accountant import BudgetAccountant
    from counterpoint.privacy.svc import PrivateSVC

__all__ = ["BudgetAccountant", "BudgetError", "PrivacyLeakWarning", "PrivateSVC"]


def __getattr__(name: str) -> Any:
    # Explaining needs the laws of noise, and not scikit-learn, which the estimators import.
    modules = {"BudgetAccountant": "accountant", "PrivateSVC": "svc"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
