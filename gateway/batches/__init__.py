"""Work in files: many requests in one JSONL file, run behind everybody who waits, kept through restarts."""

from sluicegate.gateway.batches.batches import Batches, new_id
from sluicegate.gateway.batches.records import BatchRecord, FileRecord, LineResult
from sluicegate.gateway.batches.runner import LineAnswer, Run
from sluicegate.gateway.batches.uploads import IncomingFile

__all__ = ["BatchRecord", "Batches", "FileRecord", "IncomingFile", "LineAnswer", "LineResult", "Run", "new_id"]
