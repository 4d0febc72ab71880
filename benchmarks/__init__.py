"""Measurements of the project itself: errors of predicted times, and the speed of the simulator."""
