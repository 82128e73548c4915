-- breaking: an older program shows what removed threads have left, and makes threads on top of it.
-- Threads that were removed and have left rows, which nobody sees any more: they go in small steps, because a long conversation in one
-- would hold up everybody's commits.
CREATE TABLE removed_threads (
  thread_id TEXT PRIMARY KEY
);

-- Frames of ended runs are swept run by run: a run that is swept is never looked at again.
ALTER TABLE runs ADD COLUMN is_swept INTEGER NOT NULL DEFAULT 0;
CREATE INDEX ix_runs_to_sweep ON runs (updated_at) WHERE is_swept = 0 AND status NOT IN ('pending', 'running');
