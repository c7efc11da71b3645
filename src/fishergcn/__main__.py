"""``python -m fishergcn`` is the command ``fishergcn``."""

from fishergcn.cli import main

if __name__ == "__main__":
    main()
