"""The Python interface: functions and objects that answer inputs, and results that can be kept and shown.

Its names are those of `trninfer` itself. Like the command line, it asks and renders: inputs are read and answered by
`inference`, reports are those of `app.reports`.
"""
