"""Reports of commands: tables, machine-readable formats, HTML pages, comparisons with earlier runs, and timelines."""
