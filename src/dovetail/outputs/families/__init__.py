"""The published designs of heads, a module a family: each says what it sees of itself in a model's outputs."""
