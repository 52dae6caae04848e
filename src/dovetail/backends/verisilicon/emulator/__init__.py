"""Programs on this machine, bit by bit as the silicon computes them: one function an operator."""
