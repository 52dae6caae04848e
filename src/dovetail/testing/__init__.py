"""What third parties test their own backend with: operator cases, the contract, strategies for graphs."""
