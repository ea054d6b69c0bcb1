"""The edge: how a request, or a person at a terminal, reaches retrieval."""

__version__ = "0.1.0"
