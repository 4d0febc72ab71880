"""Reports of commands: as a table, for programs, as an HTML page, beside an earlier run, as a timeline."""
