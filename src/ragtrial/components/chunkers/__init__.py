"""Documents in, chunks with exact spans out. One file per kind, named as the kind, registers it."""
