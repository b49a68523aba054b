"""The kubectl plugin `kubectl sparksql`."""
