"""From a folder of documents to a LanceDB table: sources, formats, chunks, build. Nothing that serves imports it."""
