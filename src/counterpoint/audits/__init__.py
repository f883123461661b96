"""Audits: what a model leaves whole groups of rows to do, and boxes of rows that have no action."""

from counterpoint.audits.auditing import Audit, audit
from counterpoint.audits.boxes import Confined, confined

__all__ = ["Audit", "Confined", "audit", "confined"]
