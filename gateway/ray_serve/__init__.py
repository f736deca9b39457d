"""The gateway on Ray Serve: gateways and engines as two deployments. Imported by `sluicegate deploy` alone, so that a
plain gateway needs no Ray."""
