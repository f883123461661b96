"""What `reproduce/inverse_classification.py` is made of: data sets, methods, experiments, figures.

Numbers of figures, tables, theorems and appendices are those of Carreira-Perpiñán and Hada,
*Inverse classification with logistic and softmax classifiers: efficient optimization*. The peers
live beside the benchmarks.
"""

import common  # noqa: F401 (one thread, and the folder of the benchmarks on the path)
