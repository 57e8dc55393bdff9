"""ragtrial's metrics inside other frameworks: one module each, which needs the extra of its name."""
