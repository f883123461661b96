"""Invert softmax classifiers in K dimensions, for whole batches.

Scores are z = A x + b, the cost of a change δ = x − x̄ is δᵀPδ. Where the gradient of
λ/2 δᵀPδ − log p_k(x) vanishes, δ = −P⁻¹Aᵀu: the answer moves within the span of the K rows of A,
and with G = A P⁻¹ Aᵀ and z̄ = A x̄ + b nothing else of A and x̄ is needed to find u. The D columns
enter twice: in z̄ before, in δ after.

Shapes: ``n`` rows, ``K`` classes. Inside, classes come first: ``(K, n)``, so that the numbers of
one class of many rows lie side by side.

References
----------
Carreira-Perpiñán & Hada, Inverse classification with logistic and softmax classifiers: efficient
optimization. Theorems 3.2–3.8 (the problem and Newton's method), 4.1 and 4.2 (two classes).
"""

from counterpoint.models.softmax.logistic import logistic_root
from counterpoint.models.softmax.newton import Reduced, direction, minimise
from counterpoint.models.softmax.probability import reach

__all__ = ["Reduced", "direction", "logistic_root", "minimise", "reach"]
