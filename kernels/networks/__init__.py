"""Parts of network.py: the layers of a launch, their weights, and both ends."""
