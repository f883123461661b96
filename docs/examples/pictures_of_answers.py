"""
Pictures of answers
===================

What each change adds to the score, what the answers of a batch have in common, several answers side
by side, and the model's decisions around one of them: of people who were declined a loan.
"""

from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import counterpoint as cp
from counterpoint.datasets import load_german_credit
from counterpoint.displays import (
    AlternativesDisplay,
    ChangesDisplay,
    RegionsDisplay,
    WaterfallDisplay,
)

# %%
# A model decides on loans. What may change are the terms of the loan, savings, and a guarantor;
# what that costs is in months of the term.

credit = load_german_credit()
X, y = credit.data, credit.target.map({1: "granted", 0: "declined"})
text = (OneHotEncoder(), ["Gender", "PurposeOfLoan"])
prepare = make_column_transformer(text, remainder=StandardScaler())
model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(X, y)

weights = {
    "LoanDuration": 1,
    "LoanAmount": 0.0073,
    "SavingsAccountBalance_geq_100": 10,
    "SavingsAccountBalance_geq_500": 20,
    "HasGuarantor": 15,
}
rules = [
    cp.Immutable(*X.columns.difference(list(weights))),
    cp.Bounds("LoanDuration", fall=12),
    cp.Bounds("LoanAmount", fall=2000, rise=0),
    *[cp.Monotone(name, "increasing") for name in list(weights)[2:]],
    cp.Linear.parse("SavingsAccountBalance_geq_500 <= SavingsAccountBalance_geq_100"),
]
explainer = cp.Explainer(model, data=X, cost=cp.Manhattan(weights), constraints=rules)
declined = X[model.predict(X) == "declined"]
answers = explainer.explain(declined, "granted")
answers[5]

# %%
# The waterfall begins at the score of the row and ends at the target: each bar is what one change
# adds. For a linear model their order makes no difference; for other models, what a change adds
# depends on those before it.

_ = WaterfallDisplay.from_answer(answers[5]).plot()

# %%
# All answers, the cheapest first: which features they change, in which direction, and at what cost.

_ = ChangesDisplay.from_answers(answers).plot()

# %%
# Several answers to one row. None of them changes all the features that an earlier one changes.

several = explainer.explain(declined.iloc[[5]], "granted", n=3)
_ = AlternativesDisplay.from_alternatives(several).plot()

# %%
# The model's decisions in the plane of two features. This answer changes others as well; the title
# lists them, and the colours show the decisions after these changes.

_ = RegionsDisplay.from_answer(answers[5], ["LoanAmount", "LoanDuration"]).plot()
