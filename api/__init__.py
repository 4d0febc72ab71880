"""The Python interface: functions and objects that answer inputs, and results that can be kept and shown.

Its names are exported by `trninfer` itself. Like the command line it is a thin layer: `inference` reads and answers
inputs, `app.reports` renders reports.
"""
