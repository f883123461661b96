"""Learning vector quantization: classifiers that answer with the label of the nearest prototype.

Plain scikit-learn estimators, in two families and with four kinds of metric. The distance of a row
x to a prototype p is d(x, p) = (x − p)′ Ω′Ω (x − p).

=========================================  =====================  ======================
Ω                                          relative distances     likelihood ratio
=========================================  =====================  ======================
the identity                               `GLVQ`                 `RSLVQ`
diagonal, learned                          `GRLVQ`
one matrix, learned                        `GMLVQ`                `MRSLVQ`
a matrix for each prototype or each class  `LGMLVQ`               `LMRSLVQ`
=========================================  =====================  ======================

All parameters of a model are trained jointly by L-BFGS on analytic gradients, from the centres of
k-means within each class. A fit depends on the rows as a set: their order does not matter, a row of
weight 2 is a row that is there twice, and a row of weight 0 is not there, all to the last bit. An
integer as ``random_state`` repeats a fit to the last bit, too, as long as linear algebra runs on
the same number of threads.

There is no ``partial_fit``: the steps of a quasi-Newton method mean nothing for a part of the rows
alone, and the start needs all of them.

Features should be on comparable scales, as after ``StandardScaler``.
"""

from __future__ import annotations

from counterpoint.lvq.estimators import GLVQ, GMLVQ, GRLVQ, LGMLVQ, LMRSLVQ, MRSLVQ, RSLVQ

__all__ = ["GLVQ", "GMLVQ", "GRLVQ", "LGMLVQ", "LMRSLVQ", "MRSLVQ", "RSLVQ"]
