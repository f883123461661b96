"""Parts of `reproduce/groups.py`.

Numbers of equations, tables and figures are those of Plumb, Terhorst, Sankararaman and Talwalkar,
*Explaining groups of points in low-dimensional representations*.
"""
