"""Where tests of the GPU's code run: on the processor, or on the device that ``SETWISE_TEST_DEVICE`` names."""

from __future__ import annotations

import os

DEVICE = os.environ.get("SETWISE_TEST_DEVICE", "cpu")
