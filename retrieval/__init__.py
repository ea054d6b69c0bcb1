"""Retrieval over a LanceDB dataset: what Bedivere knows when it is not talking MCP, HTTP or Lambda."""
