"""One reconciler for all kinds, one controller for each: gather, decide, write, act."""
