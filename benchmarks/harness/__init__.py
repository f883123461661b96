"""What benchmarks and reproductions share: data, timing, peers, pages and figures.

Importing it limits linear algebra to one thread, so that "one core" is one core.
"""

import scipy.linalg  # noqa: F401 (brings a BLAS of its own, to be limited too)
from threadpoolctl import threadpool_limits

threadpool_limits(limits=1)
