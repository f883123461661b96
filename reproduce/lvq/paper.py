"""The paper's own numbers, as it prints them."""

from __future__ import annotations

TABLE_1 = {
    ("breast cancer", "GLVQ"): (3.26, 3.28, 1.96),
    ("breast cancer", "GMLVQ"): (2.71, 6.49, 2.46),
    ("breast cancer", "LGMLVQ"): (2.00, 1.61, 1.57),
    ("digits", "GLVQ"): (6.51, 6.53, 3.99),
    ("digits", "GMLVQ"): (21.34, 11.63, 4.40),
    ("digits", "LGMLVQ"): (8.12, 7.88, 7.53),
    ("houses", "GLVQ"): (3.81, 3.85, 3.32),
    ("houses", "GMLVQ"): (5.06, 8.63, 3.78),
    ("houses", "LGMLVQ"): (12.74, 12.59, 8.20),
}
"""Data set, model: mean Manhattan distance of Downhill-Simplex, CMA-ES, the paper's method."""

SECONDS = {
    ("breast cancer", "GLVQ"): (0.95, 0.01),
    ("breast cancer", "GMLVQ"): (0.25, 0.01),
    ("breast cancer", "LGMLVQ"): (0.91, 0.65),
    ("digits", "GLVQ"): (3.15, 0.02),
    ("digits", "GMLVQ"): (2.12, 0.02),
    ("digits", "LGMLVQ"): (3.35, 2.09),
}
"""Data set, model: seconds of the black box and of the paper's method, in an early version."""

TABLE_2 = {
    "original": (0, 1120, 468, 1588, 1),
    "counterfactual": (0, 366, 1824, 2225, 0),
    "constrained": (373, 1454, 1454, 3125, 0),
}
"""Row: TotalBsmt, 1stFlr, 2ndFlr, GrLivA, label."""
