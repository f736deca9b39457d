"""Who changed what: one line of JSON a change, each sealed to the one before."""

from sluicegate.gateway.audit.chain import Anchor, Audited, Broken, audited
from sluicegate.gateway.audit.trail import AuditTrail, AuditWriter, writer_of

__all__ = ["Anchor", "AuditTrail", "AuditWriter", "Audited", "Broken", "audited", "writer_of"]
