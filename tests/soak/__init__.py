"""A function under load while releases, stores and providers change or fail: every answer is checked."""
