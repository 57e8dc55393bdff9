"""Files and tables of qrels and runs: recognised, read, and written."""
