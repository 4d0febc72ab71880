"""The Python interface: functions and objects that compute predictions for inputs, and results that can be saved
and displayed.

Its names are exported by `trninfer` itself. Like the command line, it is a thin layer: `inference` reads inputs and
computes predictions, and `app.reports` renders reports.
"""
