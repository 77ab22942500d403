"""The parts of a stack: one ComponentResource a file, built from arguments alone."""
