"""The search of a union of programs, and the validation of its answers by the model."""
