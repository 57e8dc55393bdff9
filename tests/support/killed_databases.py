"""A database as a process leaves it that is killed while it writes."""

import sqlite3
from contextlib import closing
from pathlib import Path


def kill_in_transaction(path: Path) -> None:
    """Leave ``path`` with half of a transaction in it, and the journal that takes it back."""
    journal = path.with_name(f"{path.name}-journal")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA cache_size = 1")  # what is more goes to the disk before it is committed
        database.execute("BEGIN")
        database.execute("CREATE TABLE half_done (value TEXT)")
        database.executemany("INSERT INTO half_done VALUES (?)", [("x" * 1_000,)] * 1_000)
        left = {one: one.read_bytes() for one in (path, journal)}
        database.execute("ROLLBACK")
    for one, content in left.items():
        one.write_bytes(content)
