"""Releases: a dataset as immutable parts in a store, and one pointer that says which of them is current."""
