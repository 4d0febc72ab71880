"""`python -m trninfer`: the command line."""

from .app.main import main

main()
