"""What `reproduce/groups.py` is made of.

Numbers of equations, tables and figures are those of Plumb, Terhorst, Sankararaman and Talwalkar,
*Explaining groups of points in low-dimensional representations*.
"""

import common  # noqa: F401 (one thread, and the folder of the benchmarks on the path)
