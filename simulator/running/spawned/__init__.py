"""A folder for sys.path that contains a module `nki`, which installs the simulator.

Child processes spawned by multiprocessing inherit the path of their parent and therefore also find `nki`.
"""
