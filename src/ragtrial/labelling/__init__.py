"""Work on labels: those of other tools become prompt_queries.json."""
