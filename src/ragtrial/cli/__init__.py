"""The command line: one file per command; the only printing, the only exit codes."""
