"""Audit what a model leaves groups of rows to do, and prove that boxes of rows have no action."""

from counterpoint.audits.auditing import Audit, audit
from counterpoint.audits.boxes import Confined, confined

__all__ = ["Audit", "Confined", "audit", "confined"]
