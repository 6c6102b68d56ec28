"""Lets the tests here import the fuzz targets next to them."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
