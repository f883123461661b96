"""Parts of `reproduce/lvq.py`.

Numbers of equations, tables and algorithms are those of Artelt and Hammer, *Efficient computation
of counterfactual explanations of LVQ models*, in the long version.
"""
