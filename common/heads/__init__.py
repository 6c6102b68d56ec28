"""Heads: the outputs of an acting graph, the columns they add to a row, the choice of actions."""

from farflung.common.heads.head import At as At
from farflung.common.heads.head import Choice as Choice
from farflung.common.heads.head import Chooser as Chooser
from farflung.common.heads.head import Head as Head
from farflung.common.heads.registry import find as find
from farflung.common.heads.registry import further_outputs as further_outputs
from farflung.common.heads.registry import masked as masked
from farflung.common.heads.registry import names as names
from farflung.common.heads.registry import outputs as outputs
from farflung.common.heads.registry import register as register
from farflung.common.heads.registry import require as require
