"""The commands people run around `pulumi up`."""
