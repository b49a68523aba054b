"""The protocols, one package each. Nothing below knows any of them."""
