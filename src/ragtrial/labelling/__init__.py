"""Labels from other tools, models and people, and their way into prompt_queries.json."""
