"""When the engines of a NeuronCore would run a program: constants, dependencies, capacity, schedule, trace."""
