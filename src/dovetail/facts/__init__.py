"""Facts of models' own frameworks, as attributes of nodes: standard library only, so that a board can read them."""
