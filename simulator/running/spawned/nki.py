"""`nki` in a process whose parent has installed the simulator: importing this module installs it there too."""

from trninfer.simulator.running.install import install

install()  # replaces this module by the package nki, which the import then returns
