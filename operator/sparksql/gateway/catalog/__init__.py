"""What a client's session can name, and how a text that is being typed may go on."""
