"""Run networks and kernels on a backend, and report their times.

`choose.choose_backend` must be called first: it selects the chip or the simulator before any kernel is imported.
`session` runs a network. `launches` plans its launches according to `launch_options`: as few as possible, or one or
more for each layer (`layer_launches`). `fallback` retries with slower launches if the chip rejects the planned ones,
`timing` sums times, and `verify` compares results with the golden model.

`neuron/` is the only code that uses the chip and its tools. `measure/` runs suites and single kernels and compares the
two backends, `selftest/` checks every kernel against its golden model, and `cluster/` distributes batches to workers.
"""
