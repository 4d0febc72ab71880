"""Passes over the graph of a launch, a file each: functions that take a graph and return one."""
