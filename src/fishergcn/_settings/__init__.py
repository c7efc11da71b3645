"""The settings of a run, as words and numbers that need neither numpy nor torch; the command line shows them."""
