"""What `reproduce/lvq.py` is made of: data sets, models, methods, experiments, figures.

Numbers of equations, tables and algorithms are those of Artelt and Hammer, *Efficient computation
of counterfactual explanations of LVQ models*, in the long version.
"""

import common  # noqa: F401 (one thread, and the folder of the benchmarks on the path)
