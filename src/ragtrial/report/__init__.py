"""Reports: the schema of report.json, writing, finding and reading."""
