"""Measure trninfer itself: the errors of predicted times, and the speed of the simulator."""
