"""
Three questions to one model
============================

Another label, a probability, or the best trade-off: three things to ask for, in a plane where you
can see the answers, and on images.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp

# %%
# Wines of three growers, by two of their measurements. The model takes one of them for a wine of
# grower 0. What would have to change for it to take this wine for one of grower 1?

wine = load_wine(as_frame=True)
X, y = wine.data[["alcohol", "color_intensity"]], wine.target
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
spread = X.std()

explainer = cp.Explainer(model, data=X, cost=cp.SquaredEuclidean(1 / spread**2))
row = X.iloc[[5]]
edge = explainer.explain(row, cp.Label(1))
sure = explainer.explain(row, cp.Probability(1, 0.9))
weights = np.geomspace(1e2, 1e-3, 60)
path = cp.trace(explainer, row, [cp.Tradeoff(1, w) for w in weights])

# %%
# ``Label`` stops at the edge of the decision, ``Probability`` where the probability is 90 %. Each
# ``Tradeoff`` is the cheapest change for the probability that it reaches. With a large weight no
# change is worth its cost, so the line begins at the wine itself; with smaller weights it goes
# further than the other two answers.

low, high = X.min() - 0.5, X.max() + 0.5
grid = np.meshgrid(*(np.linspace(low[name], high[name], 300) for name in X.columns))
plane = X.iloc[:1].reindex(range(grid[0].size))
plane[:] = np.stack([axis.ravel() for axis in grid], axis=1)
probability = model.predict_proba(plane)[:, 1].reshape(grid[0].shape)

blue, orange, ink = "#0072b2", "#d55e00", "#222222"
fig, ax = plt.subplots(figsize=(7, 4.6), layout="constrained")
levels = (0.01, 0.1, 0.33, 0.5, 0.9, 0.99)
lines = ax.contour(*grid, probability, levels, colors=blue, linewidths=0.8, alpha=0.7)
ax.clabel(lines, fmt=lambda level: f"{level:.0%}", fontsize=8)
for label, marker in enumerate("os^"):
    some = X[y == label]
    ax.scatter(*some.to_numpy().T, s=14, marker=marker, color="#999999", label=f"grower {label}")
trail = np.array([answers.to_frame().to_numpy()[0] for answers in path.answers])
ax.plot(*trail.T, color=orange, linewidth=2, label="Tradeoff, weight 100 to 0.001")
for answers, name, marker in ((edge, "Label", "D"), (sure, "Probability 90 %", "*")):
    ax.scatter(
        *answers.to_frame().to_numpy().T, s=110, marker=marker, color=orange, zorder=3, label=name
    )
ax.scatter(*row.to_numpy().T, s=70, color=ink, zorder=3, label="the wine")
ax.set(xlabel="alcohol", ylabel="color intensity", title="The model's probability of grower 1")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %%
# The same on images: a 4 is to become a 9. The lower row shows what is added, in orange, and what
# is removed, in purple.

digits = load_digits()
pixels = LogisticRegression(max_iter=2000, C=0.01).fit(digits.data, digits.target)
four = digits.data[digits.target == 4][:1]
images = cp.Explainer(pixels, cost=cp.SquaredEuclidean())
steps = cp.trace(images, four, [cp.Tradeoff(9, w) for w in (0.1, 0.03, 0.01, 0.001)])

fig, axes = plt.subplots(2, 5, figsize=(9, 3.9), layout="constrained")
axes[0, 0].imshow(four.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
axes[0, 0].set_title(f"as it is, 9: {pixels.predict_proba(four)[0, 9]:.1%}", fontsize=9)
axes[1, 0].set_visible(False)
for k, answers in enumerate(steps.answers):
    after, upper, lower = answers.to_frame(), axes[0, k + 1], axes[1, k + 1]
    upper.imshow(after.reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
    weight, share = steps.targets[k].weight, steps.probability[0, k]
    upper.set_title(f"weight {weight:g}, 9: {share:.1%}", fontsize=9)
    lower.imshow((after - four).reshape(8, 8), cmap="PuOr_r", vmin=-8, vmax=8)
    lower.set_title(f"distance {np.sqrt(answers.cost[0]):.2f}", fontsize=9)
for ax in axes.flat:
    ax.set_axis_off()

# %%
# Every answer has a certificate: no other is better by more than its gap.

for answers in (edge, sure, *path.answers, *steps.answers):
    assert answers.found.all()
    assert answers.gap.max() <= 1e-6
