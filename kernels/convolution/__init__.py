"""Parts of conv2d.py: how a convolution is cut up, its loads, its forms and its sums."""
