"""Reports of commands: tables, machine formats, HTML pages, comparisons with earlier runs, timelines."""
