"""`python -m handler.cli` is `bedivere`."""

from handler.cli import main

main()
