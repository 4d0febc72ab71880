"""Workers that process batches, and the pool that distributes batches among them.

worker the work of a worker: a session on its own backend
process a worker in a local process, which receives messages over pipes
pool passes batches to workers, and replaces workers that end
shared_session a session whose batches are passed to a pool: `--cores` and `--cluster`

A server (inference/serving) uses the same pool. Workers on other machines are implemented in runtime/cluster.
"""
