"""The starter of processes, under the name by which the rooms of the chip know it."""

from ..child_python import python_command as python_command
