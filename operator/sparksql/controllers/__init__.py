"""One reconciler a kind: gather -> decide -> act -> status."""
