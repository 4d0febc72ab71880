"""Runs networks and kernels on a backend and tells their times.

`choose.choose_backend` comes first: it settles whether kernels run on a chip or on the simulator before any kernel is
imported. `session` runs a network, `plan` says as which launches, `timing` adds up, `verify` compares with the golden
model. `neuron/` has all that touches the chip and its tools, `measure/` suites, single kernels and the comparison of
both backends, `cluster/` shares batches out over workers, `beside` has the
simulator beside the chip.
"""
