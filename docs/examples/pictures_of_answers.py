"""
Pictures of answers
===================

What each change adds, what a batch has in common, several answers side by side, and the model's
decisions around one of them.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import counterpoint as cp
from counterpoint.displays import (
    AlternativesDisplay,
    ChangesDisplay,
    RegionsDisplay,
    WaterfallDisplay,
)

# %%
# A model that tells benign from malignant tumours, and what would make it say *benign*.

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
explainer = cp.Explainer(model, data=X)
rows = X[model.predict(X) == 0].head(60)
answers = explainer.explain(rows, 1)
answers[0]

# %%
# The waterfall begins at the score of the row and ends at the target: each bar is what one change
# adds. Of a linear model the order changes nothing; of others, what a change adds depends on those
# before it.

_ = WaterfallDisplay.from_answer(answers[0]).plot()

# %%
# All answers of the batch, the cheapest first: which features they change, in which direction, and
# what that costs.

_ = ChangesDisplay.from_answers(answers).plot()

# %%
# Several answers to one row, none of which changes all that an earlier one changes.

several = explainer.explain(rows.iloc[[3]], 1, n=3)
_ = AlternativesDisplay.from_alternatives(several).plot()

# %%
# The model's decisions in the plane of the two features that cost most, all others as in the
# answer.

_ = RegionsDisplay.from_answer(answers[3]).plot()
