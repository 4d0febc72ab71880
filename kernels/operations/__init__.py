"""The bodies of a program's operations (../program.py), a file for each family, and what they share."""
