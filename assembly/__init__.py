"""From configuration to components: what a stack file says becomes the arguments of each."""
