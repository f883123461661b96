"""Rows: data frames in and out, features and their kinds, encoding and decoding."""
