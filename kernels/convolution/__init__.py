"""The parts of conv2d.py: the tiling of a convolution, its loads, its forms and its sums."""
