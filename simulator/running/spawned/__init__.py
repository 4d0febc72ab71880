"""A folder for sys.path, with a module `nki` that installs the simulator: children that multiprocessing spawns get the
path of their parent, and so find `nki` as it does."""
