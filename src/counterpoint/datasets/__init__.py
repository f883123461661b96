"""Loads a table to try things on, with its source and its licence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoint.errors import check_flag

if TYPE_CHECKING:
    from sklearn.utils import Bunch

__all__ = ["load_german_credit"]

GERMAN_CREDIT = Path(__file__).with_name("german_credit.csv.gz")
TARGET = "GoodCustomer"


def load_german_credit(
    *, return_X_y: bool = False, as_frame: bool = True
) -> Bunch | tuple[Any, Any]:
    """Load 1 000 loans with 29 columns: whole numbers, text, and columns of 0 and 1.

    A table for classification that comes with the package (UCI Statlog German credit, CC BY 4.0):
    700 loans that were paid back as agreed, and 300 that were not. ``DESCR`` describes each column
    and names the source, the licence and the known errors.

    Parameters
    ----------
    return_X_y
        Whether to return ``(data, target)`` alone.
    as_frame
        Whether to return pandas objects. Two columns are text, so without it ``data`` is an array
        of Python objects, with integers and strings, and no names.

    Returns
    -------
    Bunch
        As scikit-learn's loaders return it. ``data``: data frame (1000, 29), or an array of
        objects. ``target``: series or array (1000,), 1 for good customers and 0 for bad ones;
        ``target_names[target]`` are these words. ``frame``: data frame (1000, 30) with both,
        ``GoodCustomer`` first, or None without ``as_frame``. ``feature_names``: list of the 29
        names. ``DESCR``: the description. ``filename``: the path of the file.
    (data, target) : tuple
        If ``return_X_y``.

    Raises
    ------
    InvalidInput
        If a parameter is neither True nor False.

    Examples
    --------
    >>> from counterpoint.datasets import load_german_credit
    >>> credit = load_german_credit()
    >>> credit.data[["Age", "LoanAmount", "LoanDuration", "PurposeOfLoan"]].head(2)
       Age  LoanAmount  LoanDuration PurposeOfLoan
    0   67        1169             6   Electronics
    1   22        5951            48   Electronics
    >>> credit.target_names[credit.target.head(2)]
    array(['good', 'bad'], dtype='<U4')
    """
    import pandas as pd
    from sklearn.utils import Bunch

    check_flag("return_X_y", return_X_y)
    check_flag("as_frame", as_frame)
    frame = pd.read_csv(GERMAN_CREDIT)
    frame[TARGET] = (frame[TARGET] == 1).astype("int64")  # -1 and 1 in the file
    X, y = frame.drop(columns=TARGET), frame[TARGET]
    data, target = (X, y) if as_frame else (X.to_numpy(dtype=object), y.to_numpy())
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame if as_frame else None,
        target_names=np.array(["bad", "good"]),
        feature_names=X.columns.tolist(),
        DESCR=GERMAN_CREDIT.with_name("german_credit.md").read_text(encoding="utf-8"),
        filename=str(GERMAN_CREDIT),
    )
