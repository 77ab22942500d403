"""What a stack may say. Pure but for `load`, the only reader of Pulumi's configuration."""
