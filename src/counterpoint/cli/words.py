"""Sentences of the library, which speak Python, in the words of the command line."""

from __future__ import annotations

import re

__all__ = ["as_options"]

PYTHON = {
    r"Pass data= \(--data\), or a cost such as cp\.Manhattan\(\) \(\[cost\] in a policy file\), "
    "which weighs all features alike": "Say --data with rows like those the model was fitted on, "
    "or write [cost] in a policy file",
    r"pass extrapolate=True to lift it": "--extrapolate lifts it",
    r"\b([a-z_]+)=(?=[\s,:;)]|\.(?!\.))": r"--\1",
}
"""What the library says to those who call it from Python, and what it is called here."""


def as_options(sentence: str) -> str:
    """Return a sentence with options in the place of parameters."""
    for pattern, words in PYTHON.items():
        sentence = re.sub(pattern, words, sentence)
    return sentence
