"""Runs networks and kernels on a backend and reports their times.

`choose.choose_backend` comes first: it settles whether kernels run on a chip or on the simulator before any kernel is
imported. `session` runs a network, `launches` says as which launches (`launch_options`: what was asked for, `network/`:
in as few as it takes, `layer_launches`: layer by layer), `fallback` goes on in slower ones where the chip refuses,
`timing` adds up, `verify` compares with the golden model.
`neuron/` has all that touches the chip and its tools, `measure/` suites, single kernels and the comparison of both
backends, `selftest/` holds every kernel against its golden model and `cluster/` shares batches out over workers.
"""
