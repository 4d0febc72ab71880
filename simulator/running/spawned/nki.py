"""`nki` in a process whose parent has installed the simulator: importing this module installs it there too."""

from trninfer.simulator.running.install import install

install()  # puts the package nki in the place of this module, which an import gives in its stead
