"""Real data, a model fitted to them, and a policy: what `counterpoint demo` tells."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["GERMAN", "Story", "breast_cancer", "german_credit"]

GERMAN = Path("german", "german.csv")
"""Where German credit lies in a folder of data sets."""


@final
@dataclass(frozen=True)
class Story:
    """What the demonstration is about.

    Parameters
    ----------
    data
        What the data are, in a line.
    pipeline
        What the model is, in a line.
    who
        What a row is.
    unwanted
        The decision that is to change.
    rows
        What the model was fitted on.
    labels
        What it was fitted to.
    model
        The fitted model.
    policy
        Target, cost and constraints, as a policy file.
    """

    data: str
    pipeline: str
    who: str
    unwanted: str
    rows: pd.DataFrame
    labels: Any
    model: Any
    policy: str


CREDIT_POLICY = """\
target = "granted"

constraints = [
    { kind = "within_observed" },
    # What the applicant cannot change, or is not to be asked for.
    { kind = "immutable", features = [
        "Gender", "Single", "Age", "ForeignWorker", "NumberOfLiableIndividuals",
        "YearsAtCurrentHome", "YearsAtCurrentJob_lt_1", "YearsAtCurrentJob_geq_4",
        "JobClassIsSkilled", "Unemployed", "OwnsHouse", "RentsHouse",
        "HasTelephone", "MissedPayments", "CriticalAccountOrLoansElsewhere",
        "NoCurrentLoan", "NumberOfOtherLoansAtBank", "OtherLoansAtBank",
        "PurposeOfLoan", "LoanRateAsPercentOfIncome",
    ] },
    # What can be agreed on.
    { kind = "bounds", feature = "LoanAmount", fall = 2000, rise = 0 },
    { kind = "bounds", feature = "LoanDuration", fall = 12, rise = 12 },
    # What the columns mean.
    "CheckingAccountBalance_geq_200 <= CheckingAccountBalance_geq_0",
    "SavingsAccountBalance_geq_500 <= SavingsAccountBalance_geq_100",
    "HasCoapplicant + HasGuarantor <= 1",
]

[cost] # a point is a month of the term, or 100 marks of the amount
kind = "manhattan"

[cost.weights]
LoanDuration = 1
LoanAmount = 0.01
CheckingAccountBalance_geq_0 = 10
CheckingAccountBalance_geq_200 = 10
SavingsAccountBalance_geq_100 = 10
SavingsAccountBalance_geq_500 = 20
HasCoapplicant = 15
HasGuarantor = 15

[features]
LoanAmount = { kind = "integer", step = 50 }
LoanDuration = { kind = "integer", step = 3 }
"""

CANCER_POLICY = """\
target = "benign"

constraints = [
    { kind = "within_observed" },
    # What was measured of the largest nuclei is not in doubt.
    { kind = "immutable", features = [
        "worst radius", "worst texture", "worst perimeter", "worst area",
    ] },
    # What the columns mean.
    "mean radius <= worst radius",
    "mean texture <= worst texture",
    "mean perimeter <= worst perimeter",
    "mean area <= worst area",
]
"""


def german_credit(file: Path) -> Story:
    """German credit: mixed columns, a column transformer and logistic regression."""
    import pandas as pd
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    rows = pd.read_csv(file)
    labels = rows.pop("GoodCustomer").map({1: "granted", -1: "declined"}).to_numpy()
    text = ["Gender", "PurposeOfLoan"]
    prepare = ColumnTransformer([("text", OneHotEncoder(), text)], remainder=StandardScaler())
    model = make_pipeline(prepare, LogisticRegression(max_iter=1000)).fit(rows, labels)
    return Story(
        data="German credit: real loan applications",
        pipeline="one-hot encoding and scaling, then logistic regression",
        who="Applicant",
        unwanted="declined",
        rows=rows,
        labels=labels,
        model=model,
        policy=CREDIT_POLICY,
    )


def breast_cancer() -> Story:
    """The breast cancer data that come with scikit-learn."""
    import numpy as np
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows, codes = load_breast_cancer(return_X_y=True, as_frame=True)
    labels = np.array(["malignant", "benign"])[codes]
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, labels)
    return Story(
        data="Breast cancer, which comes with scikit-learn: measured cell nuclei",
        pipeline="scaling, then logistic regression",
        who="Tumour",
        unwanted="malignant",
        rows=rows,
        labels=labels,
        model=model,
        policy=CANCER_POLICY,
    )
