"""Who changed what: one line of JSON a change, each sealed to the one before."""

from sluicegate.gateway.audit.chain import Anchor, AuditReport, BrokenLink, audited
from sluicegate.gateway.audit.trail import AuditTrail, AuditWriter, writer_of

__all__ = ["Anchor", "AuditReport", "AuditTrail", "AuditWriter", "BrokenLink", "audited", "writer_of"]
