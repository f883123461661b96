"""Write letters: principal reasons and rounded advice in sentences, re-checked by the model."""

from counterpoint.letters.layout import Part
from counterpoint.letters.speech import Reason
from counterpoint.letters.texts import Texts, Wording, draft
from counterpoint.letters.writing import Letter, letter, write_letters

__all__ = ["Letter", "Part", "Reason", "Texts", "Wording", "draft", "letter", "write_letters"]
