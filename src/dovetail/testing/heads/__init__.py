"""Small heads of published designs with random weights, shaped and named as their exporters do it."""
