"""From a text to checked statements: script, bounds, kinds, parameters, policy, and errors that name the place."""
