"""``python -m sparkbeam`` is the command ``sparkbeam``."""

from sparkbeam.cli.commands import main

if __name__ == "__main__":
    main(prog_name="python -m sparkbeam")
