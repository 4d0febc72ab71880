"""Measurements of the project itself: the error of predicted times, and the speed of the simulator."""
