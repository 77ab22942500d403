"""Settings every test runs under."""

import os

# Without it `f"{output}"` quietly becomes an error text; with it the program fails.
os.environ["PULUMI_ERROR_OUTPUT_STRING"] = "1"
