"""
More change, more probability
=============================

How much must change for the model to be 60 % sure, or 90 %, or 99 %? A path answers for all of
them, from no change at all to one that makes the model almost certain.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

# %%
# The model takes this tumour for malignant. Features are in their own units; the model's pipeline
# scales them.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
diagnosis = np.where(y == 1, "benign", "malignant")
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, diagnosis)
row = X.iloc[[0]]
print(model.predict(row)[0])

# %%
# By default, a change of a feature by its median absolute deviation costs 1, and costs add up, so
# few features change. The lower the weight of the cost, the more of them do, each within the range
# of the data.

explainer = cp.Explainer(model, data=X, constraints=[cp.WithinObserved()])
weights = np.geomspace(10, 1e-3, 100)
path = cp.trace(explainer, row, [cp.Tradeoff("benign", weight) for weight in weights])
print(path.summary())

# %%
# Left: the probability that each cost buys. Right: which features change, and how far.

figure = path.plot()

# %%
# With a squared cost, many features change from the beginning, each a little.

squared = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(weights=1 / X.var()))
smooth = cp.trace(squared, row, [cp.Tradeoff("benign", w) for w in np.geomspace(100, 1e-4, 200)])
figure = smooth.plot()

# %%
# Along every path, more cost brings more probability, never less.

for one in (path, smooth):
    assert (np.diff(one.cost[0]) >= -1e-6).all()
    assert (np.diff(one.probability[0]) >= -1e-6).all()
