"""Colours and markers of methods, the same in all figures."""

from __future__ import annotations

from private.methods import AS_PRINTED, COSTLY, PLAIN

__all__ = ["BAD", "COLOURS", "DARK", "GOOD", "MARKERS", "PAPER"]

PAPER = "paper's ten draws"
BAD, GOOD, DARK = "#f6d5d0", "#e3efe3", "#444444"
COLOURS = {
    PAPER: "#000000",
    PLAIN: "#8c8c8c",
    AS_PRINTED: "#000000",
    "segment, paper's rule": "#cc79a7",
    "segment, exact rule": "#56b4e9",
    "optimal, exact rule": "#d55e00",
    "segment, selection": "#0072b2",
    COSTLY: "#009e73",
    "paper's cone program": "#cc79a7",
    "exact rule": "#d55e00",
    "selection": "#009e73",
}
MARKERS = {
    PAPER: "x",
    PLAIN: ".",
    AS_PRINTED: "",
    "segment, paper's rule": "v",
    "segment, exact rule": "^",
    "optimal, exact rule": "s",
    "segment, selection": "D",
    COSTLY: "o",
    "paper's cone program": "v",
    "exact rule": "s",
    "selection": "o",
}
