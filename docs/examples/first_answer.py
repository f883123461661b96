"""
One answer in a picture
=======================

Tumours in the plane of two measurements, and the two sides of a model's decision. The model takes
one of the tumours for malignant; which is the smallest change after which it would not?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

data = load_breast_cancer(as_frame=True)
X, y = data.data[["mean radius", "mean texture"]], data.target
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(1 / X.var()))
row = X.loc[[2]]
answer = explainer.explain(row, target=1)[0]
print(answer)

# %%
# The answer is the nearest point on the other side of the line, measured in standard deviations. No
# nearer point changes the decision, and this is proved.

low, high = X.min() - 1, X.max() + 1
grid = np.meshgrid(*(np.linspace(low[name], high[name], 300) for name in X.columns))
plane = X.iloc[:1].reindex(range(grid[0].size))
plane[:] = np.stack([axis.ravel() for axis in grid], axis=1)
side = model.predict(plane).reshape(grid[0].shape)

blue, orange, ink = "#0072b2", "#d55e00", "#222222"
fig, ax = plt.subplots(figsize=(7.6, 4.4), layout="constrained")
ax.contourf(*grid, side, levels=(-0.5, 0.5, 1.5), colors=(orange, blue), alpha=0.12)
for label, name, colour in ((0, "malignant", orange), (1, "benign", blue)):
    ax.scatter(*X[y == label].to_numpy().T, s=9, color=colour, alpha=0.45, linewidth=0, label=name)
before, after = row.to_numpy()[0], np.array(list(answer.row.values()))
ax.annotate("", after, before, arrowprops={"arrowstyle": "-|>", "color": ink, "linewidth": 1.6})
ax.scatter(*before, s=70, color=ink, zorder=3)
ax.scatter(*after, s=70, facecolor="white", edgecolor=ink, linewidth=1.6, zorder=3)
halo = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5}
for point, name, offset in ((before, "the row", (6, 8)), (after, "its answer", (-66, -18))):
    ax.annotate(name, point, offset, textcoords="offset points", color=ink, bbox=halo)
ax.set(xlabel="mean radius", ylabel="mean texture", xlim=(low.iloc[0], high.iloc[0]))
ax.legend(loc="upper right", frameon=False, markerscale=2)
