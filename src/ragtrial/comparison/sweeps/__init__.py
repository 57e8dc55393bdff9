"""What each parameter of a sweep does."""
