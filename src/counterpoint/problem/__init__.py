"""Describe what an explanation shall be: targets, costs, constraints, and the policy file."""
