"""`python -m ops COMMAND`: each command is imported only when it is asked for."""

import importlib
import sys

COMMANDS = {
    "doctor": "check a stack file before anything is called",
    "plan": "what a stack file comes to: hosts, chips, addresses, money",
    "cost": "price a stack or the difference a preview makes",
    "report": "turn a preview's events into a pull-request comment",
    "gate": "stop a preview whose risk nobody accepted",
    "verify": "ask a deployed model real questions and check the answers",
    "slices": "list slices, who holds them, and what to delete where nobody does",
    "load": "put a served model under load and measure it",
}


def main(arguments: list[str]) -> None:
    name = arguments[0] if arguments else "--help"
    if name not in COMMANDS:
        width = max(map(len, COMMANDS))
        lines = [f"  {each:<{width}}  {says}" for each, says in COMMANDS.items()]
        print("\n".join(["usage: python -m ops COMMAND [--help]", "", *lines]))
        sys.exit(0 if name in ("-h", "--help") else 2)
    importlib.import_module(f"ops.{name}").app(
        args=arguments[1:], prog_name=f"python -m ops {name}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
