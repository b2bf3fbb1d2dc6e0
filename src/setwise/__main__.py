"""``python -m setwise``."""

from setwise_start import main

main()
