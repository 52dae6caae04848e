"""Generated operators, what the vendor's model says of them, and the coefficients that fit it."""
