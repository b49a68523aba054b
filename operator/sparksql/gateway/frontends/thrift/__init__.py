"""The HiveServer2 frontend: TCLIService over SASL PLAIN and TLS, on the same session service as the other frontends."""
