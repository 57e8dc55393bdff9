"""Runs meet qrels: a run file, or a run in memory, becomes its judged hits."""
