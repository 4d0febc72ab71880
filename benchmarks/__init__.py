"""What the project measures about itself: how right the predicted times are, and how fast the simulator computes."""
