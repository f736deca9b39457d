"""Who changed what: one line of JSON a change, each sealed to the one before."""

from sluicegate.gateway.audit.chain import Anchor, Audited, BrokenLink, audited
from sluicegate.gateway.audit.trail import AuditTrail, AuditWriter, writer_of

__all__ = ["Anchor", "AuditTrail", "AuditWriter", "Audited", "BrokenLink", "audited", "writer_of"]
