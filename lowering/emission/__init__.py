"""From a graph to the program of a launch: stages, bands of rows, buffers and weight arrays."""
