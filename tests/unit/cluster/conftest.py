"""The cluster tool is no installed package: its folder is put on the path."""
