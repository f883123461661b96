"""Parts of `reproduce/private_svm.py`.

Numbers of equations, figures and algorithms are those of Mochaourab, Sinha, Greenstein and
Papapetrou, *Robust explanations for private support vector machines*.
"""
