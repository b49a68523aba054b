"""Pure decisions: frozen data in, data out. No I/O, no clock, no asyncio."""
