"""Checks a resource as the API server does: by the structural schema of its CRD and by the schema's CEL rules."""
