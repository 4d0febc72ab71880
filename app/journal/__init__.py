"""Write predictions to `--output` batch by batch, with a journal from which an interrupted run can be resumed."""
