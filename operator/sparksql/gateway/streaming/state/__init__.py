"""What a checkpoint's state means, and whether a changed text may go on from it."""
