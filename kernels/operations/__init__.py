"""The implementations of a program's operations (../program.py), one file per family, and the code that they share."""
