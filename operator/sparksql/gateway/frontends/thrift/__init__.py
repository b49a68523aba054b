"""The HiveServer2 door: TCLIService over SASL PLAIN and TLS, on the same session service as the other doors."""
