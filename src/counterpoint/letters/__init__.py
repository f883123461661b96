"""Letters: principal reasons and rounded advice in sentences, re-checked by the model."""

from counterpoint.letters.texts import Reason, Texts, Wording
from counterpoint.letters.writing import Letter, letter, write_letters

__all__ = ["Letter", "Reason", "Texts", "Wording", "letter", "write_letters"]
