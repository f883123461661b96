"""
More change, more probability
=============================

How far must a row change for the model to be so and so sure? A path answers for many weights at
once, from a change that costs next to nothing to a probability near 1.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

# %%
# A tumour that the model takes for malignant, in raw features; the model scales them itself.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
diagnosis = np.where(y == 1, "benign", "malignant")
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, diagnosis)
row = X.iloc[[0]]
print(model.predict(row)[0])

# %%
# By default a change costs as many units as it is median absolute deviations long, so few features
# change. As the weight of the cost falls, one after the other does; each as far as data were seen.

explainer = cp.Explainer(model, data=X, constraints=[cp.WithinObserved()])
weights = np.geomspace(10, 1e-3, 100)
path = cp.trace(explainer, row, [cp.Tradeoff("benign", weight) for weight in weights])
print(path.summary())

# %%
# Left, what is to be had for what; right, what changes.

figure = path.plot()

# %%
# With a squared cost all features change a little, along one straight line.

squared = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(weights=1 / X.var()))
smooth = cp.trace(squared, row, [cp.Tradeoff("benign", w) for w in np.geomspace(100, 1e-4, 200)])
figure = smooth.plot()

# %%
# What must hold along every path: who pays less for change gets no more probability.

for one in (path, smooth):
    assert (np.diff(one.cost[0]) >= -1e-6).all()
    assert (np.diff(one.probability[0]) >= -1e-6).all()
