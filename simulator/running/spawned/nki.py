"""`nki` in a process whose parent has installed the simulator; importing this module installs it in the process."""

from trninfer.simulator.running.install import install

install()  # replaces this module with the package nki, which the import then returns
