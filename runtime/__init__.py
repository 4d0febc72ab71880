"""Runs networks and kernels on a backend and reports their times.

`choose.choose_backend` must be called first: it decides between chip and simulator before any kernel is imported.
`session` runs a network. `launches` plans its launches: `network/` makes as few as possible, `layer_launches` one or
more for each layer, both by the `launch_options`. `fallback` retries with slower launches when the chip refuses the
planned ones, `timing` sums times, and `verify` compares with the golden model.

`neuron/` is the only code that touches the chip and its tools. `measure/` runs suites and single kernels and compares
the two backends, `selftest/` checks every kernel against its golden model, and `cluster/` distributes batches to
workers.
"""
