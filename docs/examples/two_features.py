"""
An answer to check by hand
==========================

With two features and a linear model, there is a formula for the nearest point on the other side.
The answer has to agree with it.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import counterpoint as cp

# %%
# Two clouds of points, and a model that separates them by a line.

random = np.random.default_rng(0)
X = np.vstack([random.normal(-1, 1, (50, 2)), random.normal(1, 1, (50, 2))])
y = np.repeat([0, 1], 50)
model = LogisticRegression().fit(X, y)

# %%
# By squared distance, the nearest point on the other side is the projection onto the line.

explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean())
answer = explainer.explain(X[:1], target=1)

normal, offset = model.coef_[0], model.intercept_[0]
projection = X[:1] - (X[:1] @ normal + offset)[:, None] * normal / (normal @ normal)

print("projection    ", projection[0])
print("counterfactual", answer.to_frame()[0])
assert np.allclose(answer.to_frame(), projection, atol=1e-6)
