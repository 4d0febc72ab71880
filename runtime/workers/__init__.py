"""Workers that answer batches, and the pool that shares batches out among them.

worker          what a worker does: a session on a backend of its own
process         a worker in a process of this machine, asked over pipes
pool            keeps workers at work, and replaces those that end
shared_session  a session whose batches go through a pool: `--cores` and `--cluster`

A server's pools (inference/serving) are the same. Workers on other machines are in runtime/cluster.
"""
