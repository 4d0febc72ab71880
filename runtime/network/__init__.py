"""A network as one launch: its plan, its program for the kernel, its weights' layout, its memory."""
