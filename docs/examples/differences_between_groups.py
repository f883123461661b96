"""
What tells these groups apart?
==============================

Wines of three growers, in a plane of two principal components: few changes of their measurements
take the wines of each grower to where those of each other are.
"""

from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from counterpoint.groups import DifferenceOfMeans, GroupTranslations, plot_curves

# %%
# Four measurements for each pair, in their own units. The wines before the change, and after it:

X, y = load_wine(return_X_y=True, as_frame=True)
growers = y.map({0: "Barolo", 1: "Grignolino", 2: "Barbera"})
space = make_pipeline(StandardScaler(), PCA(2)).fit(X)
model = GroupTranslations(space, k=4).fit(X, growers)
print(model.sentences())
model.plot_map(X, growers, "Barolo", "Barbera")

# %%
# What changes from one grower to another. The bars are in standard deviations, the numbers beside
# them in the units of the measurements.

model.translations_.plot("Barolo", "Barbera")

# %%
# How many moved wines arrive near a wine of the other grower, and how many of those wines are
# reached, for each pair; on wines that were set aside.

quality = model.evaluate(X, growers)
print(quality.summary())
quality.plot()

# %%
# The same against the number of measurements. The difference of the means is the baseline, which
# keeps the largest changes of each pair by themselves, so that they contradict each other.

ks = (1, 2, 3, 4, 6, 8, 10, 13)
found = {
    "consistent and sparse": model.evaluate_each(X, growers, ks),
    "largest differences of means": DifferenceOfMeans(space).evaluate_each(X, growers, ks),
}
plot_curves(ks, found)
