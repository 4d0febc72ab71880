"""`nki` in a process whose parent has installed the simulator.

Importing this module installs the simulator in the process.
"""

from trninfer.simulator.running.install import install

install()  # replaces this module with the package nki, which the import then returns
