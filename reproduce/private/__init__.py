"""What `reproduce/private_svm.py` is made of: data sets, models, noise, experiments, figures.

Numbers of equations, figures and algorithms are those of Mochaourab, Sinha, Greenstein and
Papapetrou, *Robust explanations for private support vector machines*.
"""

import common  # noqa: F401 (one thread, and the folder of the benchmarks on the path)
