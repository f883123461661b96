"""How far answers of other tools are from the optimum: DiCE, NICE and CFNOW on six data sets."""

from __future__ import annotations

from harness.data import encoded, tables
from harness.report import Claim, Section, is_quick, publish
from peers.tools import COLUMNS, TOOLS, compared
from sklearn.linear_model import LogisticRegression

TEXT = """
Logistic regressions over standardised numbers and one-hot categories; ten rows of class 0 each,
target the other class, answers within the range of the data, numbers of any size between. The
distance is the sum of changes in median absolute deviations. Every tool runs in an environment of
its own and is measured by `counterpoint.metrics`.
"""
METHOD = """
*Violated*: how many valid answers are outside the range of the data. *Cost / optimum*: the total
cost over the least, and *gap*: the mean of (cost − bound) / cost with proved bounds, both over
answers that are valid and violate nothing. A fault inside a tool counts as nothing found. DiCE
minimises a distance of its own and CFNOW a sum of changes in raw units; NICE needs the training
data. CPU is the median of a row in a warm process, with the time limit of CFNOW at ten seconds on
the clock, of which a busy machine gave it two or three.
"""


def main() -> None:
    quick = is_quick()
    sets = tables()
    rows = []
    for name in list(sets)[-2:] if quick else sets:
        model = encoded(*sets[name], LogisticRegression(max_iter=2000))
        rows += compared(name, sets[name], model, 3 if quick else 10, {} if quick else TOOLS)
    ours = [dict(zip(COLUMNS, row, strict=True)) for row in rows if row[1] == "counterpoint"]
    total, valid = (sum(row[name] for row in ours) for name in ("rows", "valid"))
    worst = max(float(row["gap"]) for row in ours)
    claims = [
        Claim("counterpoint, valid", "every row", f"{valid} of {total}", valid == total),
        Claim("counterpoint, largest mean gap", "≤ 1e-6", f"{worst:.1e}", worst <= 1e-6),
    ]
    section = Section("", TEXT, COLUMNS, rows, [METHOD], claims=claims)
    publish("gaps", "How far other tools are from the optimum", [section], quick=quick)


if __name__ == "__main__":
    main()
