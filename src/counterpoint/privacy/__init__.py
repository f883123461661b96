"""Private models: plain scikit-learn estimators whose weights can be published.

`PrivateSVC` learns a support vector machine, linear or with random Fourier features, and releases
its weights with noise that hides any single row (Rubinstein et al., 2012; Chaudhuri et al., 2011).
What is guaranteed, what has to be public and what must not be done is on the page *Private models*.

The noise is drawn by OpenDP: ``pip install 'counterpoint[privacy]'``.
"""

from __future__ import annotations

from counterpoint.errors import BudgetError, PrivacyLeakWarning
from counterpoint.privacy.accountant import BudgetAccountant
from counterpoint.privacy.svc import PrivateSVC

__all__ = ["BudgetAccountant", "BudgetError", "PrivacyLeakWarning", "PrivateSVC"]
