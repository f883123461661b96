"""Draws small pages of HTML for notebooks, and figures of matplotlib."""
