"""The resource API, group `sparksql.dev`: models of the kinds, conditions, reasons, and the CRDs made from them."""
