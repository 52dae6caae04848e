"""What third parties run against their own backend: operator cases and the contract."""
