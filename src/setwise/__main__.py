"""``python -m setwise``."""

from setwise.cli import main

main()
