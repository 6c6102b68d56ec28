"""Tic-tac-toe of examples with its script, for `--import support.tictactoe_world`."""

from support import games

games.load("tictactoe")
