"""Rankings in, better rankings out. One file per kind, named as the kind, registers it."""
