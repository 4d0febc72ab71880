"""Runs networks and kernels on a backend and reports their times.

`choose.choose_backend` must be called first: it selects the chip or the simulator before any kernel is imported.
`session` runs a network. `launches` plans its launches according to `launch_options`: `network/` creates as few as
possible, `layer_launches` one or more for each layer. `fallback` retries with slower launches if the chip refuses the
planned ones, `timing` sums times, and `verify` compares answers with the golden model.

`neuron/` is the only code that uses the chip and its tools. `measure/` runs suites and single kernels and compares the
two backends, `selftest/` checks every kernel against its golden model, and `cluster/` distributes batches to workers.
"""
