"""
An answer to check by hand
==========================

With two features and a linear model, there is a formula for the nearest point on the other side.
The answer has to agree with it.
"""

import matplotlib.pyplot as plt
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

# %%
# The arrow meets the line at a right angle.

fig, ax = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
for label, colour in ((0, "#d55e00"), (1, "#0072b2")):
    ax.scatter(*X[y == label].T, s=14, color=colour, alpha=0.5, label=f"class {label}")
ax.axline(projection[0], slope=-normal[0] / normal[1], color="#222222", label="the model's line")
(before,), (after,) = X[:1], answer.to_frame()
ax.annotate("", after, before, arrowprops={"arrowstyle": "-|>", "linewidth": 1.6})
ax.scatter(*before, s=60, color="#222222", zorder=3)
ax.set_aspect("equal", adjustable="datalim")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
