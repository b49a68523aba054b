"""HiveServer2's protocol as both of its ends speak it: Thrift's encoding, TCLIService's messages, SASL PLAIN and frames."""
