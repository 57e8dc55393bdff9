"""Tests, intervals, families of comparisons, and power."""
