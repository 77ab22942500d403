"""Runs inside pods, on Python's standard library alone: copies weights and compiled programs."""
