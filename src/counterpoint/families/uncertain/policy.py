"""How what this family adds is written in a policy file."""

from __future__ import annotations

from counterpoint.families.uncertain.target import Robust
from counterpoint.problem.tables import Parameter, a_count, a_label, a_number, a_row, a_text

__all__ = ["TARGETS"]

TARGETS: dict[type, dict[str, Parameter]] = {
    Robust: {
        "label": a_label,
        "probability": a_number,
        "guarantee": a_text,
        "draws": a_count,
        "random_state": a_count,
        "search": a_text,
        "prototype": a_row,
    },
}
