"""The tables the simulated cloud answers from; README.md says where each comes from."""
