"""Indexing, publishing and syncing that end at any moment, by a kill or a power cut."""
