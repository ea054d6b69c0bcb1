"""Who may call: keys, tokens, scopes and limits. Nothing here is imported by a server that anyone may ask."""
