"""Files and tables of qrels and runs: told apart, read, and written."""
