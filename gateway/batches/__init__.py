"""Work in files: many requests in one JSONL file, run behind everybody who waits, kept through restarts."""

from gateway.batches.batches import Batches, new_id
from gateway.batches.records import BatchRecord, FileRecord, LineResult
from gateway.batches.runner import LineAnswer, Run
from gateway.batches.uploads import Upload

__all__ = ["BatchRecord", "Batches", "FileRecord", "LineAnswer", "LineResult", "Run", "Upload", "new_id"]
