"""What a failure of a statement means: that the statement is wrong, that its environment failed, or neither. Pure."""
