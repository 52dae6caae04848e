"""Write networks as CMake projects against the vendor's own libraries."""
