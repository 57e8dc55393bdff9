"""Silent faults of vector indexes, one module an engine, one function a fault."""
