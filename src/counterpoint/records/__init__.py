"""Records of answers, and the checker of them; clients of the explainer."""
