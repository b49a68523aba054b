"""Tables `USING kafka`, read and written."""
