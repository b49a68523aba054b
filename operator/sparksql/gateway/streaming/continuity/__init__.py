"""Whether the sources of a query are still the ones that its checkpoint has read, and have the rows that come next."""
